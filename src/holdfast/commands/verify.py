"""``holdfast verify`` and ``holdfast show``: the question of a stored result asked again, and what it says."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.commands.check import in_words
from holdfast.commands.codes import EXIT_NO, EXIT_OK
from holdfast.commands.parsing import Commands, add_input
from holdfast.commands.trusting import announce, read_trust
from holdfast.commands.verdict import CODES
from holdfast.errors import InvalidValueError
from holdfast.validation import read_text

if TYPE_CHECKING:
    from holdfast.certification.serialization import Value
    from holdfast.evaluation import Evaluator

_GUARANTEE = "holdfast.data_set_guarantee"
_INPUTS = ("image", "text", "table", "input")
_NAMES = ("feature_names", "selected_names", "classes")


def add(commands: Commands) -> None:
    """Add the commands."""
    parser = commands.add_parser(
        "verify",
        help="ask the question of a stored result again and compare everything it states",
        description="Ask the whole question of a stored result again, on the model and the input it is about, named by "
        "the same options, and compare every field: counts, intervals, rules of stopping, fingerprints, names.",
        epilog="Exit codes: 0 confirmed, 1 not confirmed, 3 error. Example: holdfast verify cert.json "
        "--model hf:my-vit --image cat.png --grid 14x14",
    )
    parser.add_argument("result", metavar="FILE", help="JSON file written by --output of certify, compare or check")
    add_input(parser, required=False)
    parser.add_argument("--study", metavar="RESULTS", help="the file of results that a data-set guarantee is about")
    parser.add_argument("--trust-model", action="store_true", help="run the code of a python: model of the study")
    parser.add_argument("--download", action="store_true", help="download a hf: model of the study")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
    parser.set_defaults(run=run)
    reader = commands.add_parser(
        "show",
        help="print what a stored result says, without a model",
        description="Print the sentence of a stored result and what its file says about it. Nothing is verified.",
        epilog="Example: holdfast show cert.json",
    )
    reader.add_argument("result", metavar="FILE", help="JSON file of a certificate or another result")
    reader.set_defaults(run=show)


def run(options: argparse.Namespace) -> int:
    """Ask again and say whether everything is as stated."""
    from holdfast.certification.verify import recheck
    from holdfast.commands.inputs import bind_named

    result, about, gate = _read(options.result)
    if result.schema == _GUARANTEE:
        return _verify_guarantee(options, result)
    if options.model is None or not any(getattr(options, name) is not None for name in _INPUTS):
        raise InvalidValueError(
            argument="--model", must=f"be given, and one of {', '.join(f'`--{name}`' for name in _INPUTS)}"
        )
    if options.batch_size is None and isinstance(about.get("batch_size"), int):
        options.batch_size = max(1, about["batch_size"])
    model, classes = bind_named(options)
    verdict = recheck(model, result, batch_size=options.batch_size)
    wrong = [*_wrong_names(about, result, model, classes), *_wrong_gate(gate, verdict.repeated)]
    if options.json:
        print(
            json.dumps(json.loads(verdict.to_json()) | {"confirmed": verdict.confirmed and not wrong, "names": wrong})
        )
    else:
        print("\n".join([*wrong, str(verdict), *_unchecked(about)]))
    return EXIT_OK if verdict.confirmed and not wrong else EXIT_NO


def _verify_guarantee(options: argparse.Namespace, stated: Any) -> int:
    """A guarantee follows from a study: the same question to its file, with the same draws."""
    from holdfast.certification.verify import differences
    from holdfast.study.aggregate import study_guarantee
    from holdfast.study.spec_file import spec_from_plain
    from holdfast.study.store import Store

    if options.study is None:
        raise InvalidValueError(argument="--study", must="name the file of results that the guarantee is about")
    names = ("method", "radius", "min_rate", "confidence", "top_fraction", "keep_probability")
    question = {name: getattr(stated, name) for name in names}
    stored = stated.source == "stored"
    with Store(options.study) as store:
        if not stored:
            announce(options.study, spec_from_plain(store.spec))
            question["level"] = stated.level
        repeated = study_guarantee(store, **question, stored=stored, trust=read_trust(options))
    wrong = differences(stated, repeated)
    if options.json:
        print(json.dumps({"confirmed": not wrong, "differences": wrong}))
    elif wrong:
        print(f"Not confirmed: {'; '.join(wrong)}.")
    else:
        items = "its stored certificates" if stored else "its stored explanations, with fresh draws"
        print(f"Confirmed: {repeated}\nIt follows from the study by {items}; those were not computed again.")
    return EXIT_NO if wrong else EXIT_OK


def show(options: argparse.Namespace) -> int:
    """Print a stored result."""
    result, about, gate = _read(options.result)
    if gate:
        print(f"{gate.get('name')}: {gate.get('answer')} (exit code {gate.get('exit_code')}).")
    print(result)
    for name, value in about.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        print(f"{name.replace('_', ' ')}: {shown}")
    print("Nothing of this was verified: see `holdfast verify`.")
    return EXIT_OK


def _read(file: str) -> tuple[Value, dict[str, Any], dict[str, Any]]:
    """The result of a file, what the file says about it, and the gate whose certificate it is, if it is one's."""
    from holdfast.certification.serialization import from_any_json, read_about, read_object

    try:
        text = read_text(Path(file))
        data, gate = read_object(text), {}
        schema = data.get("schema")
        if schema == "holdfast.check" and data.get("certificate"):
            text, gate = json.dumps(data["certificate"]), data
        if schema == _GUARANTEE:
            import holdfast.study.aggregate  # noqa: F401  it knows guarantees
        return from_any_json(text), read_about(text), gate
    except (ValueError, RecursionError) as error:
        raise InvalidValueError(f"{file!r} holds no result that can be read: {error}") from error


def _wrong_names(about: dict[str, Any], result: Value, model: Evaluator, classes: tuple[str, ...]) -> list[str]:
    """Names in the file that are not those of the model."""
    from holdfast.attribution.task import names_of

    names, selected = names_of(model), getattr(result, "selected", None)
    now = {"feature_names": None if names is None else list(names), "classes": list(classes)}
    if names is not None and selected is not None:
        now["selected_names"] = [name for name, shown in zip(names, selected, strict=False) if shown]
    return [
        f"Not confirmed: {name} in the file are not those of the model."
        for name in _NAMES
        if name in about and about[name] != now.get(name)
    ]


def _wrong_gate(gate: dict[str, Any], certificate: Any) -> list[str]:
    """What a gate says that does not follow from its certificate."""
    if not gate:
        return []
    answer, reason = in_words(certificate, needs_consistent=gate.get("needs_consistent") is True)
    follows = {"answer": answer, "reason": reason, "exit_code": CODES[answer]}
    return [
        f"Not confirmed: {name} of the gate is stated as {gate.get(name)!r} and is {value!r}."
        for name, value in follows.items()
        if gate.get(name) != value
    ]


def _unchecked(about: dict[str, Any]) -> list[str]:
    named = [name for name in about if name not in (*_NAMES, "batch_size")]
    return [f"Not checked, as `holdfast show` prints them: {', '.join(named)}."] if named else []
