"""Small models of all kinds behind a real server, slow ones and failing ones among them, and tabs that look at them."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from holdfast.explore.server import listen, make_server
from holdfast.explore.workbench import Workbench, bundled_entries, loaded_entry
from tests.helpers.report_support import CLASSES, HOSTILE, image_spec, table_spec, text_spec
from tests.helpers.waiting import PATIENCE

TURNED = "\u202egnp.exe"
"""A word that would turn the rest of its line around."""

TOKEN = "t0ken-of-the-tests"
SECONDS_PER_TEXT = 0.006


def parity() -> Any:
    """Texts: an even number of words against an odd one, slowly; about half of all additions change it."""

    def score(texts: Any) -> Any:
        time.sleep(SECONDS_PER_TEXT * len(texts))
        return np.array([[1.0, 0.0] if len(text.split()) % 2 else [0.0, 1.0] for text in texts])

    return score


def brittle() -> Any:
    """Texts: fails for those of three words."""

    def score(texts: Any) -> Any:
        if any(len(text.split()) == 3 for text in texts):
            raise RuntimeError(f"three words are too many {HOSTILE}")
        return np.array([[float(len(text)), 3.0] for text in texts])

    return score


def make_workbench(folder: Path) -> Workbench:
    """VADER, and models on texts, images and rows whose names mean harm."""
    entries: list[Any] = [next(one for one in bundled_entries() if one.name == "vader")]
    words = folder / "words"
    _write_texts(words, [f"a{i} b c d e f g h i j k l m n o p" for i in range(3)] + ["one two three"])
    hostile = folder / "hostile"
    text_spec(hostile)
    lines = (hostile / "test_text.txt").read_text(encoding="utf-8").splitlines()
    _write_texts(hostile, [f"{lines[0]} {TURNED} end", *lines[1:]])
    images, rows = image_spec(folder / "images").data.spec, table_spec(folder / "rows", n=5).data.spec
    patches = np.arange(12 * 16).reshape(12, 16) % 5
    for spec, dataset, kind, groups, names in (
        ("tests.helpers.explore_pages:parity", f"tweeteval:{words}", "text", None, ("even", "odd")),
        ("tests.helpers.explore_pages:brittle", f"tweeteval:{words}", "text", None, ("few", "many")),
        ("tests.helpers.report_support:moods", f"tweeteval:{hostile}", "text", None, CLASSES),
        ("tests.helpers.report_support:brightness", images, "image", (3, 4), ("up", "down")),
        ("tests.helpers.report_support:sums", rows, "table", None, (f"less {HOSTILE}", "more")),
    ):
        entries.append(_entry(spec, dataset, kind, groups, names))
    odd = _entry("tests.helpers.explore_pages:uneven", images, "image", patches, ("up", "down"))
    return Workbench([*entries, odd])


def uneven() -> Any:
    """Images: the left half against the right."""
    return lambda images: np.stack(
        [images[:, :, :8].mean(axis=(1, 2, 3)), images[:, :, 8:].mean(axis=(1, 2, 3))], axis=1
    )


def _entry(place: str, dataset: str, kind: str, groups: Any, names: Any) -> Any:
    spec = f"python:{place}"
    options = {"kind": kind, "classes": list(names)}
    return loaded_entry(hf.bind(spec, dataset, features=groups, **options), options)


def _write_texts(folder: Path, texts: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_text.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "test_labels.txt").write_text("".join(f"{i % 2}\n" for i in range(len(texts))), encoding="utf-8")
    (folder / "mapping.txt").write_text("0\tno\n1\tyes\n", encoding="utf-8")


class Serving:
    """A server in a thread of this process, until it is stopped."""

    def __init__(self, workbench: Workbench, *, port: int = 0, token: str = TOKEN) -> None:
        self._socket = listen(port)
        self.port, self.token = int(self._socket.getsockname()[1]), token
        self._server, _ = make_server(workbench, self._socket, token=token)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    @property
    def origin(self) -> str:
        """What every address of the page begins with."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End the server and all its jobs."""
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()


class Tab:
    """A tab on the page, with whatever it said and asked for."""

    def __init__(self, browser: Any, serving: Serving, view: str = "", **options: Any) -> None:
        self.serving = serving
        self.page = browser.new_page(**options)
        self.page.set_default_timeout(1000 * PATIENCE)
        self.said: list[str] = []
        self.asked: list[Any] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request))
        self.page.goto(f"{serving.origin}/?token={serving.token}#{view}")
        self.wait()

    def wait(self) -> None:
        """Until the page can be used."""
        self.page.wait_for_selector("html[data-ready]")
        ended = "one.querySelector('.side-body:not(.stale):not([hidden]), .message')"
        self.until(f"[...document.querySelectorAll('.side')].every((one) => {ended})")

    def until(self, condition: str, *, seconds: float = PATIENCE) -> None:
        """Wait for a condition, asked from outside: the page itself evaluates no strings."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(f"Boolean({condition})"):
            if time.monotonic() > end:
                raise AssertionError(f"It never came to {condition}")
            self.page.wait_for_timeout(20)

    def sent(self, path: str) -> list[Any]:
        """The bodies that were posted to a path."""
        return [one.post_data_json for one in self.asked if one.method == "POST" and one.url.endswith(path)]

    def states(self, side: int = 0) -> dict[int, str]:
        """What every feature of a side is."""
        tiles = self.page.locator(".side").nth(side).locator(".tile")
        return dict(tiles.evaluate_all("all => all.map(one => [Number(one.dataset.feature), one.dataset.state])"))

    def shown(self, side: int = 0) -> list[int]:
        """The features that are shown."""
        return sorted(i for i, state in self.states(side).items() if state in ("selected", "added"))

    def strangers(self) -> list[str]:
        """Requests to anybody but the server."""
        return [one.url for one in self.asked if not one.url.startswith((self.serving.origin, "data:", "blob:"))]
