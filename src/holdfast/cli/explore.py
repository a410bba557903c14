"""``holdfast explore``: a page on this machine, on a live model."""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from contextlib import suppress

from holdfast.cli.options import ENDPOINT_SETTINGS, add_data, add_settings, bind_keywords, paint_path
from holdfast.terminal import unescaped


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what the command does, and add its options."""
    parser.description = (
        "Serve a page on this machine to look at explanations, change them and certify them. Without --model it shows "
        "the bundled models; each is loaded when you open it."
    )
    parser.epilog = (
        "The printed address holds a token: only those who have it can use the page, and only from this machine. "
        "Ctrl-C stops the server.\n"
        "Examples: holdfast explore --open · holdfast explore --model hf:my-vit --data images:photos --port 8765 · "
        "holdfast explore --model openai:http://127.0.0.1:8000/v1#qwen3 --data contexts:qa.jsonl --set cache=answers.db"
    )
    add_data(parser)
    parser.add_argument("--port", type=int, default=0, help="port; 0 for any free one (default: 0)")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    add_settings(parser, ("kind", "device", "trusted", "template", "system", *ENDPOINT_SETTINGS))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve until Ctrl-C, which is how it is meant to end."""
    from holdfast.inputs.models import available
    from holdfast.inputs.source import check_sources

    if options.model is not None:
        # What the server, the model and its data need is named at once; bundled models have data of their own.
        own = {f"bundled:{model.name}": model.data for model in available()}
        data = options.data or own.get(options.model)
        check_sources(options.model, data, "starlette", "uvicorn", what=f"Exploring {options.model}")
    # The server is imported when it is known that its packages are there.
    from holdfast.explore.server import serve
    from holdfast.explore.workbench import open_workbench

    workbench = open_workbench(options.model, options.data, groups=options.features, **bind_keywords(options.settings))

    def announce(url: str) -> None:
        print(f"Explore at {paint_path(url)} (Ctrl-C ends it)", file=unescaped(sys.stdout), flush=True)
        if options.open:
            # The browser asks for the page at once; a moment later there is somebody to answer.
            threading.Timer(0.5, webbrowser.open, [url]).start()

    with suppress(KeyboardInterrupt):
        serve(workbench, port=options.port, on_ready=announce)
    print("Stopped.", flush=True)
