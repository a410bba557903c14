"""A hub on this machine: a web server that offers folders the way the Hugging Face hub does."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest


class TinyHub:
    """Repositories by name: revision → folder; ``offers`` are open pull requests by name."""

    def __init__(self) -> None:
        self.repositories: dict[str, dict[str, Path]] = {}
        self.offers: dict[str, list[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.endpoint = ""

    def offer(self, name: str, number: int, author: str, title: str) -> None:
        fields = {"num": number, "author": {"name": author}, "title": title, "status": "open", "isPullRequest": True}
        self.offers.setdefault(name, []).append(
            fields | {"createdAt": "2024-01-01T00:00:00.000Z", "repo": {"type": "model", "name": name}}
        )

    def commit_of(self, name: str, revision: str) -> str:
        return hashlib.sha1(f"{name} {revision}".encode()).hexdigest()

    def folder(self, name: str, revision: str) -> tuple[str, Path] | None:
        for branch, folder in self.repositories.get(name, {}).items():
            if revision in (branch, self.commit_of(name, branch)):
                return self.commit_of(name, branch), folder
        return None

    def answer(self, path: str) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers for a path."""
        self.asked.append(path)
        parts = unquote(urlsplit(path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            return self._api("/".join(parts[2:4]), parts[4:])
        if len(parts) > 3 and parts[2] == "resolve":
            return self._file("/".join(parts[:2]), "/".join(parts[3:-1]), parts[-1])
        return 404, b"{}", {}

    def _api(self, name: str, rest: list[str]) -> tuple[int, bytes, dict[str, str]]:
        if rest[:1] == ["discussions"]:
            found: Any = {"discussions": self.offers.get(name, []), "count": len(self.offers.get(name, [])), "start": 0}
            return 200, json.dumps(found).encode(), {"Content-Type": "application/json"}
        located = self.folder(name, "/".join(rest[1:]) if rest else "main")
        if located is None:
            return 404, b"{}", {"X-Error-Code": "RepoNotFound"}
        commit, folder = located
        files = sorted(folder.iterdir())
        if rest[:1] == ["tree"]:
            found = [_entry(path) for path in files]
        else:
            found = {"id": name, "sha": commit, "siblings": [{"rfilename": path.name} for path in files]}
        return 200, json.dumps(found).encode(), {"Content-Type": "application/json"}

    def _file(self, name: str, revision: str, file: str) -> tuple[int, bytes, dict[str, str]]:
        located = self.folder(name, revision)
        if located is None or not (located[1] / file).is_file():
            return 404, b"", {"X-Error-Code": "EntryNotFound"}
        content = (located[1] / file).read_bytes()
        return 200, content, {"X-Repo-Commit": located[0], "ETag": f'"{hashlib.sha1(content).hexdigest()}"'}


def _entry(path: Path) -> dict[str, Any]:
    return {
        "type": "file",
        "path": path.name,
        "size": path.stat().st_size,
        "oid": hashlib.sha1(path.read_bytes()).hexdigest(),
    }


@contextmanager
def running(hub: TinyHub) -> Iterator[TinyHub]:
    """Serve the hub on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(hub))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler_of(hub: TinyHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(send_body=True)

        def do_HEAD(self) -> None:
            self._reply(send_body=False)

        def _reply(self, *, send_body: bool) -> None:
            status, body, headers = hub.answer(self.path)
            self.send_response(status)
            for name, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(name, value)
            self.end_headers()
            if send_body:
                self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    return Handler


def point_client_at(endpoint: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client of the hub ask there, and keep what it gets in an empty folder."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
