"""Commands about one input: its model bound, its explanation read, one verb of the library called, the result told."""

from __future__ import annotations

import argparse
import difflib
import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import holdfast as hf
from holdfast.agreement import as_agreement
from holdfast.atomic import write_whole
from holdfast.attribution.methods import names_of, resolve_method
from holdfast.calls import steady_batch_size
from holdfast.certification.question import FIELDS
from holdfast.cli.options import (
    EXIT_CODES,
    INPUT_SETTINGS,
    MODELS,
    add_features,
    add_json,
    add_settings,
    bind_keywords,
    parse_radii,
)
from holdfast.errors import InvalidValueError
from holdfast.evaluation import Evaluator, bare_model
from holdfast.extras import check_installed, needed
from holdfast.inputs.data.files import READERS, SUFFIXES
from holdfast.inputs.source import LOADERS
from holdfast.judging import cited_in
from holdfast.types import Mask
from holdfast.validation import MOST_UNPACKED, check_file, check_mask, read_text, shown

_METHOD_HELP = "lime, shap, occlusion, grad_cam, …; captum:DeepLift, shapiq:SVARM, … for those of other packages"
_SCHEMES = dict.fromkeys(READERS, "table") | {".jsonl": "contexts"}  # of files that hold many inputs
_PICTURES = (".png", ".svg", ".pdf")
_RATES = ("plan", "reference", "neighborhood", "rate_kind", "answers", "rng")


@dataclass(frozen=True)
class Verb:
    """A command: the function of the library that it calls, what that is asked, and how the help teaches it."""

    function: str
    options: tuple[str, ...]
    settings: tuple[str, ...]
    description: str
    example: str


VERBS = {
    "certify": Verb(
        "certify",
        ("explanation", "radius", "tolerance", "confidence", "agree"),
        ("n_samples", *_RATES),
        "Show the model only what an explanation selected. Reveal up to --radius more features at random. Certify how "
        "often the prediction stays, within --tolerance and with --confidence.",
        "holdfast certify --model bundled:vader --input 'text:what a good day' --method lime --top 1 --radius 2",
    ),
    "curve": Verb(
        "certify_radii",
        ("explanation", "radii", "tolerance", "confidence", "agree"),
        ("n_samples", *_RATES, "simultaneous"),
        "Certify how often the prediction stays, at several radii.",
        "holdfast curve --model bundled:cancer-forest --input bundled:cancer#0 --method lime --top 5 --radii 1-8 "
        "--plot curve.png",
    ),
    "radius": Verb(
        "certified_radius",
        ("explanation", "min_rate", "radii", "confidence", "agree"),
        ("n_samples", "neighborhood", "rng", "max_draws"),
        "Find how many features can be revealed before the prediction stays in less than --min-rate of cases.",
        "holdfast radius --model bundled:cancer-forest --input bundled:cancer#0 --method lime --top 5 --min-rate 0.9",
    ),
    "explain": Verb(
        "attribute",
        ("method",),
        ("n_samples", "rng"),
        "Score how much each feature matters for the prediction. Scores carry no guarantee: certify what they select.",
        "holdfast explain --model bundled:cancer-forest --input bundled:cancer#0 --method shap --output shap.json",
    ),
    "witness": Verb(
        "find_witness",
        ("explanation", "max_radius", "agree"),
        ("n_samples", "rng", "max_calls"),
        "Search for the fewest features that change the prediction when they are revealed.",
        "holdfast witness --model bundled:vader --input 'text:not a bad day at all' --method occlusion --top 1",
    ),
    "compare": Verb(
        "compare",
        ("explanations", "radii", "tolerance", "confidence", "agree"),
        ("n_samples", *(name for name in _RATES if name != "rate_kind")),
        "Compare several explanations of one input. All claims together hold with --confidence.",
        "holdfast compare --model hf:my-vit --input cat.png --explanation lime --explanation mine=mask.npy --top 0.25 "
        "--radii 1,5,10",
    ),
    "citations": Verb(
        "certify_citations",
        ("cited", "radius", "min_rate"),
        ("tolerance", "confidence", "plan", "agree", "reference", "answers", "witness", "rng"),
        "Certify whether a language model's answer rests on the passages it cites. Does it stay when other passages "
        "are shown as well? Is it lost without them?",
        "holdfast citations qa.jsonl#3 --model openai:http://127.0.0.1:8000/v1#qwen3 --radius 2 --min-rate 0.9 "
        "--set cache=answers.db",
    ),
}
"""Commands that differ in nothing but this; ``check``, ``verify`` and ``bench`` share their options."""


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what a command does, and add its options."""
    verb = VERBS[command]
    parser.description, parser.epilog = verb.description, f"Example: {verb.example}\n{EXIT_CODES}"
    add_input(parser, flag="input" if "cited" in verb.options else "--input")
    add_verb_options(parser, verb.options)
    others = "any option of the method, such as kernel_width of lime" if command == "explain" else ""
    add_settings(parser, (*INPUT_SETTINGS, *verb.settings), others=others)
    add_output(parser, "a figure if it ends in .png or .svg")
    add_plot(parser)
    parser.set_defaults(run=run)


def add_input(parser: argparse.ArgumentParser, *, required: bool = True, flag: str = "--input") -> None:
    """A model and one input; a context has a place of its own, without a flag."""
    parser.add_argument("--model", required=required, metavar="SPEC", help=MODELS)
    purpose = (
        "a text (text:…), an image or text file, or an entry of a data set by its number, from 0: images:photos#3, "
        "table:loans.csv#7 (or loans.csv#7), contexts:qa.jsonl#3 (or qa.jsonl#3), bundled:digits#0"
    )
    if flag == "input":
        purpose = "a question with its passages, by number, from 0: qa.jsonl#3 or bundled:contexts#3"
        parser.add_argument(flag, metavar="FILE#N", help=purpose)
        parser.set_defaults(features=None)  # what is cited are passages
    else:
        parser.add_argument(flag, required=required, metavar="INPUT", help=purpose)
        add_features(parser)


def add_verb_options(parser: argparse.ArgumentParser, names: tuple[str, ...]) -> None:
    """What is explained and what is asked."""
    what = "with --top: a method (lime, shap, captum:DeepLift, …) or a file of scores; without: a file of 0s and 1s; "
    what += "for a context also cited (passages cited in the data) or citations (those of the answer)"
    radius = "how many more features may be revealed"
    if "cited" in names:
        purpose = "numbers of the cited passages, such as 1,3 (default: those of the data); citations takes them from "
        purpose += "the model's own answer, with --set template=citing"
        parser.add_argument("--cited", default="cited", metavar="1,3", help=purpose)
    elif "method" in names:
        parser.add_argument("--method", required=True, metavar="NAME", help=_METHOD_HELP)
    elif "any_method" in names:
        parser.add_argument("--method", metavar="NAME", help="a method of the study (default: all of them)")
    else:
        several: dict[str, Any] = {"metavar": "WHAT", "help": what}
        if "explanations" in names:
            purpose = f"two or more, each may be NAME=WHAT: {what}"
            several = {"action": "append", "metavar": "[NAME=]WHAT", "help": purpose}
        parser.add_argument("--explanation", "--method", required=True, **several)
        purpose = "select the K features with the largest scores, or a share of all, such as 0.25"
        parser.add_argument("--top", type=parse_top, metavar="K", help=purpose)
    if "radius" in names:
        parser.add_argument("--radius", type=int, required="cited" not in names, help=radius)
    if "max_radius" in names:
        parser.add_argument("--radius", type=int, dest="max_radius", metavar="RADIUS", help=f"{radius} (default: all)")
    if "min_rate" in names:
        purpose, required = "smallest rate that counts as stable, between 0 and 1", "cited" not in names
        purpose = purpose if required else "also find few passages that keep the answer at this rate (default: 0.9)"
        parser.add_argument("--min-rate", type=float, required=required, help=purpose)
    if "radii" in names:
        required = "min_rate" not in names
        purpose = f"{radius}: 1,5,10 or 1-10" + ("" if required else " (default: 1, 2, … until one fails)")
        parser.add_argument("--radii", type=parse_radii, required=required, metavar="1,5,10", help=purpose)
    for name in (name for name in ("tolerance", "confidence") if name in names):
        purpose = f"{FIELDS[name].help} (default: %(default)s)"
        parser.add_argument(f"--{name}", type=float, default=FIELDS[name].default, help=purpose)
    if "agree" in names:
        purpose = f"{FIELDS['agree'].help} (default: %(default)s)"
        parser.add_argument("--agree", default=FIELDS["agree"].default, metavar="RULE", help=purpose)


def add_output(parser: argparse.ArgumentParser, other: str) -> None:
    """Where the result goes; ``other`` says what else than JSON can be written."""
    add_json(parser)
    purpose = f"also write the result to a file: JSON, or {other}; may be repeated"
    parser.add_argument("--output", action="append", default=[], metavar="FILE", type=parse_target, help=purpose)


def add_plot(parser: argparse.ArgumentParser) -> None:
    """Where the result is drawn."""
    purpose = "draw the result as a .png, .svg or .pdf file; may be repeated"
    parser.add_argument("--plot", action="append", default=[], metavar="FILE", type=parse_picture, help=purpose)


def parse_picture(text: str) -> str:
    """A file to be drawn."""
    if Path(text).suffix.lower() not in _PICTURES:
        raise argparse.ArgumentTypeError(f"must end in {', '.join(_PICTURES[:-1])} or {_PICTURES[-1]}, got {text!r}")
    return in_folder(text)


def parse_target(text: str) -> str:
    """A file to be written, of a kind that a command writes."""
    if Path(text).suffix.lower() in (".gif", ".jpeg", ".jpg", ".pdf"):
        raise argparse.ArgumentTypeError(f"must end in .json, .png, .svg or .xml, got {text!r}")
    return in_folder(text)


def in_folder(text: str) -> str:
    """A file to be written, whose folder exists: a result must not be lost for a name that was mistyped."""
    is_file = has_folder = False
    with suppress(OSError, ValueError):
        is_file, has_folder = bool(text) and not Path(text).is_dir(), Path(text).parent.is_dir()
    if not is_file:
        raise argparse.ArgumentTypeError(f"must be the name of a file, got {text!r}")
    if not has_folder:
        raise argparse.ArgumentTypeError(f"must be in a folder that exists, got {text!r}")
    return text


def parse_top(text: str) -> int | float:
    """How many features, or which share of them."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else float(text)
    except ValueError as error:
        must = "must be a number of features such as 5, or a share such as 0.25"
        raise argparse.ArgumentTypeError(f"{must}, got {text!r}") from error


def bind_data(options: argparse.Namespace) -> tuple[hf.Inputs, int]:
    """The data that ``--input`` names, bound to the model, and the number of the input in them."""
    data, number = read_input(options.input)
    if isinstance(data[0], Path):  # an image file; of data with a scheme, `bind` knows what they need
        check_installed(options.model, [*needed(options.model), "PIL"])
    names = [name for name in INPUT_SETTINGS if name in options.settings and name not in ("batch_size", "timeout")]
    inputs = hf.bind(options.model, data, **bind_keywords({name: options.settings[name] for name in names}))
    if number >= len(inputs):
        must = f"end with a number from 0 to {len(inputs) - 1}"
        raise InvalidValueError(argument="input", must=must, got=shown(options.input))
    if options.features is not None and inputs.kind == "table":
        must = "be left out: the features of a row are its columns"
        raise InvalidValueError(argument="features", must=must, got=shown(options.features))
    return replace(inputs, features=options.features), number


def bind_input(options: argparse.Namespace) -> tuple[hf.Inputs, Evaluator]:
    """The input that the options name, and its model as a function of masks that remembers what it computed.

    Batches have a size that depends on no clock, so that what is written can be repeated to the last bit.
    """
    every, number = bind_data(options)
    inputs = every[number : number + 1]
    model = inputs[0]
    size = options.settings.get("batch_size", steady_batch_size(model))
    return inputs, Evaluator(model, batch_size=size, timeout=options.settings.get("timeout"))


def read_input(name: str) -> tuple[Any, int]:
    """What ``--input`` names: data as ``bind`` takes them, and the number of the input in them."""
    if name.startswith("text:"):
        return [name.removeprefix("text:")], 0
    place, _, number = name.rpartition("#")
    if place and re.fullmatch(r"[0-9]{1,18}", number):
        scheme = None if place.partition(":")[0] in LOADERS["data"] else _SCHEMES.get(Path(place).suffix.lower())
        return f"{scheme}:{place}" if scheme else place, int(number)
    suffix = Path(name).suffix.lower()
    if suffix in SUFFIXES:
        return [Path(name)], 0
    if suffix in _SCHEMES or name.partition(":")[0] in LOADERS["data"]:
        must, count = "end with the number of an input", f"Count from 0: '{name}#0' is the first."
        raise InvalidValueError(argument="input", must=must, got=shown(name), hint=count)
    if suffix in (".txt", ".md"):
        return [read_text(Path(name)).strip()], 0
    must = "be text:…, an image or text file, or DATA#N such as images:photos#3, loans.csv#7 or qa.jsonl#3"
    hint = f"Write 'text:{name}' for the text itself." if " " in name else None
    raise InvalidValueError(argument="input", must=must, got=shown(name), hint=hint)


def read_explanation(text: str, options: argparse.Namespace, inputs: hf.Inputs, model: Evaluator) -> Mask:
    """The mask of a file, or the top of the scores of a file or of a method."""
    n_samples = options.settings.get("n_samples")
    if text.startswith(("python:", "scores:")) or text in ("cited", "citations"):
        from holdfast.study.methods import load_explainer  # few commands explain by a method of one's own
        from holdfast.study.spec import MethodSpec

        method = MethodSpec("explanation", n_samples, spec=text, masks=":" in text and options.top is None)
        if ":" not in text and isinstance(getattr(options, "explanation", None), str) and options.top is not None:
            raise InvalidValueError(argument="top", must="be left out: citations are not scores", got=options.top)
        every, number = replace(inputs, places=None), inputs.numbers[0]
        names = [every.name(index) for index in range(len(every))]
        explain = load_explainer(method, getattr(options, "agree", "same_top_class"), names=names)
        scores = explain(model, every, number, rng=0, timeout=None)
        return hf.positive(scores) if method.masks else cut(scores, options.top)
    if Path(text).suffix.lower() not in (".npy", ".json", ".csv", ".txt") and "/" not in text:
        if options.top is None:
            raise InvalidValueError(argument="explanation", must="come with `--top`: how many features it selects")
        rng = options.settings.get("rng", "canonical")
        scores = hf.attribute(model, text, n_samples=n_samples, agree=getattr(options, "agree", None), rng=rng)
        return cut(scores, options.top)
    if n_samples is not None:
        raise InvalidValueError(argument="n_samples", must="be left out: the explanation comes from a file")
    values, are_scores = read_numbers(text)
    if options.top is None and not are_scores and np.isin(values, (0, 1)).all():
        return check_mask(values.astype(bool), "explanation", n_features=model.n_features)
    if options.top is None:
        must = "hold only 0 and 1, or come with `--top`, the number of features to select"
        must = "come with `--top`, the number of features to select" if are_scores else must
        raise InvalidValueError(argument="explanation", must=must, got=repr(text))
    if len(values) != model.n_features:
        must = f"have one score per feature: {model.n_features}"
        raise InvalidValueError(argument="explanation", must=must, got=len(values))
    return cut(values, options.top)


def read_cited(options: argparse.Namespace, inputs: hf.Inputs, model: Evaluator) -> Mask:
    """The passages that are typed by their numbers, that the data cite, or that the model's own answer cites."""
    if options.cited in ("cited", "citations"):
        return read_explanation(options.cited, options, inputs, model)
    if not re.fullmatch(r"\s*\d{1,9}(\s*,\s*\d{1,9})*\s*", options.cited):
        must = "be numbers of passages such as 1,3, or citations"
        raise InvalidValueError(argument="cited", must=must, got=shown(options.cited))
    return cited_in(f"[{options.cited}]", model.n_features, argument="cited")


def cut(scores: Any, where: float) -> Mask:
    """The features with the largest scores: a number of them, or a share."""
    return hf.top(scores, where) if isinstance(where, int) else hf.top_fraction(scores, where)


def read_numbers(name: str) -> tuple[NDArray[Any], bool]:
    """A vector from a .npy, .json, .csv or .txt file, and whether it is known to be one of scores.

    Numbers may be separated by commas or white space. A JSON file may be one that ``holdfast explain`` wrote.
    """
    path = Path(name)
    try:
        if path.suffix == ".npy":
            with check_file(path, most=MOST_UNPACKED).open("rb") as file:
                values = np.load(file, allow_pickle=False)
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiub":
                raise ValueError("it holds no array of numbers")
            return values.ravel(), False
        text = read_text(path)
        words = json.loads(text) if path.suffix == ".json" else re.split(r"[\s,;]+", text.strip())
        if isinstance(words, dict):
            return np.array(hf.Attribution.from_json(text).scores), True
        truth = {"true": 1, "false": 0}
        return np.array([float(truth.get(str(word).lower(), word)) for word in words]), False
    except (OSError, InvalidValueError):
        raise
    except Exception as error:  # NumPy lets through whatever its parser of headers raises
        raise InvalidValueError(f"{path} must hold one number per feature: {error}") from error


def read_explanations(options: argparse.Namespace, inputs: hf.Inputs, model: Evaluator) -> dict[str, Mask]:
    """Explanations by name: the name before ``=``, or that of the method or the file."""
    sources: dict[str, str] = {}
    for text in options.explanation:
        name, _, source = text.partition("=") if "=" in text else (Path(text).stem, "", text)
        if name in sources:
            statement = f"Explanations must have distinct names, got {name!r} more than once. Write NAME={source}."
            raise InvalidValueError(statement)
        sources[name] = source
    return {name: read_explanation(source, options, inputs, model) for name, source in sources.items()}


def run(options: argparse.Namespace) -> None:
    """Bind, explain, ask, and tell."""
    verb, command = VERBS[options.command], options.command
    drawn = [file for file in options.output if Path(file).suffix.lower() in _PICTURES]
    check_drawing([*drawn, *options.plot])
    if command == "explain":
        check_options(options)
    inputs, model = bind_input(options)
    keywords = {name: value for name, value in options.settings.items() if name not in (*INPUT_SETTINGS, "n_samples")}
    keywords = {"rng": "canonical"} | keywords
    names = [name for name in verb.options if not name.startswith(("explanation", "method", "cited"))]
    keywords |= {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    subject: Any
    if command == "explain":
        subject, keywords["n_samples"] = options.method, options.settings.get("n_samples")
    elif command == "compare":
        subject = read_explanations(options, inputs, model)
    elif command == "citations":
        subject = read_cited(options, inputs, model)
    else:
        subject = read_explanation(options.explanation, options, inputs, model)
    result = getattr(hf, verb.function)(model, subject, **keywords)
    text = result.to_json(describe(options, inputs, model, getattr(result, "selected", None)))
    for file in options.output:
        if file not in drawn:
            write_whole(file, text + "\n")
    print(text if options.json else in_words(result, command, model), flush=True)
    # A figure that cannot be drawn must not swallow the answer.
    write_pictures(result, [*drawn, *options.plot], inputs.raw(0), bare_model(model))


def check_drawing(files: list[str]) -> None:
    """Raise before anything is computed if pictures are wanted that cannot be drawn."""
    if files:
        check_installed("A figure", ["matplotlib"])


def write_pictures(result: Any, files: list[str], value: Any = None, model: Any = None) -> None:
    """Draw a result, on its input if it is about one, into files."""
    if not files:
        return
    from holdfast.report.figures.examples import plot_result
    from holdfast.report.figures.style import themed, write_figure

    with themed():
        figure: Any = plot_result(result, value, model).figure
    for file in files:
        write_figure(figure, Path(file))


def check_options(options: argparse.Namespace) -> None:
    """Raise for a setting of ``explain`` that is neither one of every method nor an option of this one."""
    own = resolve_method(options.method).options
    if own is None:
        return
    known = [*own, *VERBS["explain"].settings, *INPUT_SETTINGS]
    for name in (name for name in options.settings if name not in known):
        takes = f"takes {', '.join(f'`{known}`' for known in own)}" if own else "takes no options of its own"
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise InvalidValueError(f"is not an option of {options.method!r}, which {takes}.{hint}", argument=name)


def describe(options: argparse.Namespace, inputs: hf.Inputs, model: Evaluator, selected: Mask | None) -> dict[str, Any]:
    """What is written beside a result, for people to read: date, version, model, input, explanation and names."""
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "holdfast": hf.__version__,
        "model": options.model,
        "input": options.input,
        "batch_size": model.batch_size,
    }
    explanation = {name: getattr(options, name, None) for name in ("explanation", "method", "cited", "top")}
    about |= {name: value for name, value in explanation.items() if value is not None}
    return about | names_about(inputs, model, selected)


def names_about(inputs: hf.Inputs, model: Evaluator, selected: Mask | None) -> dict[str, Any]:
    """The names of the features, of those selected, and of the classes."""
    names = names_of(model)
    about: dict[str, Any] = {}
    if selected is not None and names is not None:
        about["selected_names"] = [name for name, shown in zip(names, selected, strict=False) if shown]
    return about | {"feature_names": None if names is None else list(names), "classes": list(inputs.classes)}


def in_words(result: Any, command: str, model: Evaluator) -> str:
    """The sentence of the result, and what a reader at a terminal wants to see besides."""
    text, names = str(result), names_of(model)
    if command == "explain":
        labels = names or [f"feature {number}" for number in range(len(result))]
        text += "".join(f"\n{result.scores[feature]:>10.3g}  {labels[feature]}" for feature in result.ranking[:10])
    kept_everywhere = command == "certify" and result.n_agreed == result.n_evaluated and result.consistent
    if kept_everywhere and result.n_completions is None:
        # A stable explanation says little of a model that says the same of nothing at all; one more row tells.
        outputs = model(np.stack([result.selected, np.zeros_like(result.selected)]))
        if as_agreement(result.agree)(outputs, outputs[0])[1]:
            text += " The prediction is the same when nothing is shown."
    return text
