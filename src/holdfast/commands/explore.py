"""``holdfast explore``: a page on this machine, on a live model."""

from __future__ import annotations

import argparse
import sys
import threading
from contextlib import suppress

from holdfast.commands.codes import EXIT_OK
from holdfast.commands.colors import paint
from holdfast.commands.parsing import Commands
from holdfast.terminal import unescaped


def add(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explore",
        help="look at explanations in the browser: reveal features, certify, find what changes the prediction",
        description="Serve a page on this machine on which explanations can be looked at, changed and certified "
        "while the model answers. Without --model, the models that come with holdfast are explored; each is loaded "
        "when it is first looked at.",
        epilog="The address that is printed holds a token: whoever has it can use the page, nobody else, and nothing "
        "can be reached from other machines. Ctrl-C ends the server. "
        "Examples: holdfast explore --open · holdfast explore --model hf:my-vit --data images:photos --port 8765",
    )
    what = parser.add_argument_group("model and data")
    specs = "hf:…, onnx:…, skops:…, bundled:… or python:module:factory (default: all bundled models)"
    what.add_argument("--model", metavar="SPEC", help=specs)
    what.add_argument("--data", metavar="SPEC", help="images:…, tweeteval:…, table:…, hf:… or bundled:…")
    what.add_argument("--kind", choices=["image", "text", "table"], help="where the model leaves it open")
    what.add_argument("--device", help="such as cuda (default: the CPU)")
    what.add_argument("--trust", action="append", default=[], metavar="TYPE", help="a type a skops file may create")
    what.add_argument("--grid", metavar="ROWSxCOLS", help="patches of an image, such as 14x14")
    what.add_argument("--features", choices=["tokens", "words"], help="features of a text")
    parser.add_argument("--port", type=int, default=0, help="where to listen; 0 for any free port (default: 0)")
    parser.add_argument(
        "--open", action=argparse.BooleanOptionalAction, default=False, help="open the page in the browser"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C, which is how it is meant to end."""
    from holdfast.commands.inputs import read_grid
    from holdfast.explore.serve import import_server, serve
    from holdfast.explore.workbench import open_workbench

    _check_packages(options)
    import_server()
    workbench = open_workbench(
        options.model,
        options.data,
        device=options.device,
        kind=options.kind,
        trusted=options.trust,
        groups=read_grid(options.grid) or options.features,
    )
    with suppress(KeyboardInterrupt):
        serve(workbench, port=options.port, on_ready=lambda url: _announce(url, opens=options.open))
    print("Stopped.", flush=True)
    return EXIT_OK


def _check_packages(options: argparse.Namespace) -> None:
    """What the server, the model and its data need is named at once; bundled models have data of their own."""
    from holdfast.inputs.models import available
    from holdfast.inputs.source import check_sources

    if options.model is not None:
        own = {f"bundled:{model.name}": model.data for model in available()}
        data = options.data or own.get(options.model)
        check_sources(options.model, data, "starlette", "uvicorn", what=f"Exploring {options.model}")


def _announce(url: str, *, opens: bool) -> None:
    print(f"Explore at {paint(url, 'path')} (Ctrl-C ends it)", file=unescaped(sys.stdout), flush=True)
    if opens:
        import webbrowser

        # The browser asks for the page at once; a moment later there is somebody to answer.
        threading.Timer(0.5, webbrowser.open, [url]).start()
