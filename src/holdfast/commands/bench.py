"""``holdfast bench``: how fast a model is on this machine, and what a certificate costs on it."""

from __future__ import annotations

import argparse

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.parsing import Commands, add_input, add_question, asked
from holdfast.errors import InvalidValueError

_MODEL, _INPUT = "bundled:digits-vit", "bundled:digits#0"


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bench",
        help="how fast is a model here, and what does a certificate cost on it?",
        description="Time a model at several batch sizes, and one certificate by each plan: draws, model calls, and "
        "time over that of the model alone. The explanation is a random share of the features, which costs what any "
        "other with the same rate does. Without options, on a bundled model.",
        epilog="Example: holdfast bench --model hf:my-vit --image cat.png --grid 14x14 --radius 10",
    )
    add_input(parser, required=False)
    ask = parser.add_argument_group("question")
    ask.add_argument("--radius", type=int, default=5, help="how many more features may be revealed (default: 5)")
    ask.add_argument("--top-fraction", type=float, default=0.25, help="share that is selected (default: %(default)s)")
    add_question(ask, "tolerance", "confidence", rng=0)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    from holdfast.attribution.methods import attribute
    from holdfast.bench import measure
    from holdfast.commands.inputs import chosen_input
    from holdfast.selection import top_fraction

    _fill_in(options)
    model = chosen_input(options)[0]
    print(f"{options.model}, {model.n_features} features, revealing up to {options.radius} more", flush=True)
    bench = measure(
        model,
        top_fraction(attribute(model, "random", rng=options.rng), options.top_fraction),
        radius=options.radius,
        batch_size=options.batch_size,
        **asked(options),
    )
    print(bench)
    return EXIT_OK


def _fill_in(options: argparse.Namespace) -> None:
    """A bundled model and input where none is named; one without the other is an error."""
    has_input = any(getattr(options, name) is not None for name in ("image", "text", "table", "input"))
    if options.model is None and not has_input:
        options.model, options.input = _MODEL, _INPUT
    elif options.model is None or not has_input:
        statement = "and an input (`--image`, `--text`, `--table` or `--input`) go together."
        raise InvalidValueError(statement, argument="--model")
