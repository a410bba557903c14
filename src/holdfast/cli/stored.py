"""``holdfast verify`` and ``holdfast show``: the question of a stored result asked again, and what it says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from holdfast.certification.selector import Selector
from holdfast.certification.serialization import Value, from_any_json, read_about, read_object
from holdfast.certification.verify import differences, recheck
from holdfast.cli.check import CODES, in_words
from holdfast.cli.options import EXIT_NO, EXIT_OK, INPUT_SETTINGS, add_json, add_settings, add_trust
from holdfast.cli.single import add_input, bind_data, bind_input, names_about
from holdfast.cli.study import announce, read_trust
from holdfast.errors import InvalidValueError
from holdfast.study.guarantee import DataSetGuarantee, study_guarantee
from holdfast.study.store import Store
from holdfast.validation import read_text

_NAMES = ("feature_names", "selected_names", "classes")


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what the command does, and add its options."""
    parser.add_argument("result", metavar="FILE", help="a JSON file that another command wrote")
    if command == "show":
        parser.description = "Print a stored result, what it says and what it does not; nothing is checked."
        parser.epilog = "Example: holdfast show cert.json"
        parser.set_defaults(run=show)
        return
    parser.description = (
        "Ask the question of a stored result again, with the same model and input, and compare every field. Name model "
        "and input as for the command that made it."
    )
    parser.epilog = (
        "Example: holdfast verify cert.json --model hf:my-vit --input cat.png --features 14x14\n"
        "Exit codes: 0 yes, 1 no, 3 error."
    )
    add_input(parser, required=False)
    parser.add_argument("--study", metavar="RESULTS", help="the file of results that a data-set guarantee is about")
    add_trust(parser)
    add_settings(parser, INPUT_SETTINGS)
    add_json(parser)
    parser.set_defaults(run=verify)


def verify(options: argparse.Namespace) -> int:
    """Ask again and say whether everything is as stated."""
    result, about, gate = _read(options.result)
    if isinstance(result, DataSetGuarantee):
        return _verify_guarantee(options, result)
    if options.trust:
        must = "be left out: only a data-set guarantee loads the model that a file names"
        raise InvalidValueError(argument="--trust", must=must)
    if options.model is None or options.input is None:
        raise InvalidValueError("and `--input` must be given.", argument="--model")
    if isinstance(result, Selector):
        return _verify_selector(options, result)
    if "batch_size" not in options.settings and isinstance(about.get("batch_size"), int):
        options.settings = options.settings | {"batch_size": max(1, about["batch_size"])}
    inputs, model = bind_input(options)
    verdict = recheck(model, result, batch_size=model.batch_size)
    names = names_about(inputs, model, getattr(result, "selected", None))
    wrong = [
        f"Not confirmed: {name} in the file differ from those of the model."
        for name in _NAMES
        if name in about and about[name] != names.get(name)
    ]
    if gate:  # what a gate says must follow from its certificate
        answer, reason = in_words(verdict.repeated, needs_consistent=gate.get("needs_consistent") is True)
        wrong += [
            f"Not confirmed: {name} of the gate is {gate.get(name)!r} in the file, but {value!r} now."
            for name, value in {"answer": answer, "reason": reason, "exit_code": CODES[answer]}.items()
            if gate.get(name) != value
        ]
    confirmed = verdict.confirmed and not wrong
    unchecked = [name for name in about if name not in (*_NAMES, "batch_size")]
    if options.json:
        print(json.dumps(json.loads(verdict.to_json()) | {"confirmed": confirmed, "names": wrong}))
    else:
        more = [f"Not checked: {', '.join(unchecked)}. `holdfast show` prints them."] if unchecked else []
        claim = [str(verdict.stated)] if verdict.confirmed else []
        print("\n".join([*wrong, str(verdict), *claim, verdict.explain(), *more]))
    return EXIT_OK if confirmed else EXIT_NO


def _verify_selector(options: argparse.Namespace, stated: Selector) -> int:
    """Calibrate again on the same inputs: those of the data from the number that is given."""
    every, first = bind_data(options)
    inputs = every[first : first + stated.n_inputs]
    if len(inputs) < stated.n_inputs:
        must = f"be the first of {stated.n_inputs} calibration inputs"
        raise InvalidValueError(
            argument="--input", must=must, got=f"{options.input}, with {len(inputs)} left from there"
        )
    verdict = recheck(inputs, stated, batch_size=options.settings.get("batch_size"))
    words = f"{verdict}\n{stated}\n{verdict.explain()}"
    print(json.dumps(json.loads(verdict.to_json()) | {"confirmed": verdict.confirmed}) if options.json else words)
    return EXIT_OK if verdict.confirmed else EXIT_NO


def _verify_guarantee(options: argparse.Namespace, stated: DataSetGuarantee) -> int:
    """A guarantee follows from a study: the same question to its file, with the same draws."""
    if options.study is None:
        raise InvalidValueError(argument="--study", must="name the file of results behind the guarantee")
    names = ("method", "radius", "min_rate", "confidence", "top_fraction", "keep_probability")
    question = {name: getattr(stated, name) for name in names}
    stored = stated.source == "stored"
    with Store(options.study) as store:
        if not stored:
            announce(options.study, store.spec)
            question["level"] = stated.level
        repeated = study_guarantee(store, **question, stored=stored, trust=read_trust(options))
    wrong = differences(stated, repeated)
    if options.json:
        print(json.dumps({"confirmed": not wrong, "differences": wrong}))
    elif wrong:
        print(f"Not confirmed: {'; '.join(wrong)}.")
    else:
        items = (
            "the stored certificates of the study"
            if stored
            else "the stored explanations of the study, with fresh draws"
        )
        print(f"Confirmed: {repeated}\nIt follows from {items}, which were not computed again.")
    return EXIT_NO if wrong else EXIT_OK


def show(options: argparse.Namespace) -> None:
    """Print a stored result."""
    result, about, gate = _read(options.result)
    if gate:
        print(f"{gate.get('name')}: {gate.get('answer')} (exit code {gate.get('exit_code')}).")
    print(result)
    if hasattr(result, "explain"):
        print(result.explain())
    for name, value in about.items():
        print(f"{name.replace('_', ' ')}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
    print("Nothing of this was verified. To verify it, use `holdfast verify`.")


def _read(file: str) -> tuple[Value, dict[str, Any], dict[str, Any]]:
    """The result of a file, what the file says about it, and the gate whose certificate it is, if it is one's."""
    try:
        text = read_text(Path(file))
        data, gate = read_object(text), {}
        if data.get("schema") == "holdfast.check" and data.get("certificate"):
            text, gate = json.dumps(data["certificate"]), data
        return from_any_json(text), read_about(text), gate
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"{file!r} is not a readable result: {error}") from error
