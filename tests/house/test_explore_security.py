"""Who may ask, and what: other sites, other names, wrong tokens, odd paths and large or strange bodies are refused."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator

import httpx
import pytest

from holdfast.explore import guard
from holdfast.explore.guard import HEADERS, MOST_BYTES
from tests.helpers.explore_support import Slow, Visitor, decide, fake_workbench, serving
from tests.helpers.waiting import PATIENCE

VIEW = {"model": "test:quick", "input": "0", "method": "own", "selected": [0]}
REVEAL = {"view": VIEW, "shown": [0]}


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with serving(fake_workbench(quick=decide)) as one:
        yield one


def address_of(visitor: Visitor) -> tuple[str, int]:
    return str(visitor.http.base_url.host), int(visitor.http.base_url.port or 0)


def token_of(visitor: Visitor) -> str:
    return visitor.url.split("token=")[1]


def raw(visitor: Visitor, text: str | bytes, *, wait: float = PATIENCE) -> bytes:
    """What the server answers to these very bytes, until it closes the connection or falls silent."""
    with socket.create_connection(address_of(visitor), timeout=wait) as sock:
        sock.sendall(text.encode() if isinstance(text, str) else text)
        answer = b""
        try:
            while part := sock.recv(65536):
                answer += part
        except TimeoutError:
            pass
        return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


# -- who ----------------------------------------------------------------------------------------------------------


def test_the_server_cannot_be_reached_but_by_the_loopback_address(visitor: Visitor) -> None:
    host, port = address_of(visitor)
    assert host == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for other in others:
        with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
            socket.create_connection((other, port), timeout=1)


@pytest.mark.parametrize("token", [None, "", "x", "é", "{right}x", "{wrong case}"])
def test_a_missing_or_wrong_token_is_refused(visitor: Visitor, token: str | None) -> None:
    right = token_of(visitor)
    given_token = None if token is None else token.replace("{right}", right).replace("{wrong case}", right.swapcase())
    base = str(visitor.http.base_url)
    page = httpx.get(base, params={} if given_token is None else {"token": given_token})
    assert page.status_code == 403
    assert page.headers["content-type"].startswith("text/plain")
    assert "Use the address that `holdfast explore` printed" in page.text
    headers = {} if given_token is None else {"X-Holdfast-Token": given_token.encode()}
    for method, path in [("GET", "/api/workbench"), ("POST", "/api/reveal"), ("DELETE", "/api/jobs/x"), ("GET", "/x")]:
        answer = httpx.request(method, base + path, headers=headers)
        assert answer.status_code == 403, path
        assert "token is missing or wrong" in answer.json()["error"]["message"]


def test_the_token_in_the_address_opens_the_page_and_nothing_else(visitor: Visitor) -> None:
    token = token_of(visitor)
    assert httpx.get(visitor.url).status_code == 200
    assert httpx.get(f"{visitor.http.base_url}/api/workbench", params={"token": token}).status_code == 403
    assert httpx.get(visitor.url + f"&token={token}").status_code == 403
    assert httpx.get(visitor.url + 20 * "&a=b").status_code == 403
    assert httpx.get(f"{visitor.http.base_url}", headers={"X-Holdfast-Token": token}).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""])
def test_another_name_is_refused(visitor: Visitor, host: str) -> None:
    name = host.replace("{port}", str(address_of(visitor)[1]))
    answer = visitor.http.get("/api/workbench", headers={"Host": name})
    assert answer.status_code in (400, 421)
    assert visitor.http.get("/", params={"token": token_of(visitor)}, headers={"Host": name}).status_code in (400, 421)


def test_localhost_is_the_same_machine(visitor: Visitor) -> None:
    assert visitor.http.get("/api/workbench", headers={"Host": f"localhost:{address_of(visitor)[1]}"}).is_success


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}"])
def test_requests_of_other_origins_are_refused_even_with_the_token(visitor: Visitor, origin: str) -> None:
    sent = origin.replace("{port}", str(address_of(visitor)[1]))
    answer = visitor.http.post("/api/reveal", json=REVEAL, headers={"Origin": sent})
    assert answer.status_code == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_the_pages_own_origin_is_let_in(visitor: Visitor) -> None:
    own = str(visitor.http.base_url).rstrip("/")
    headers = {"Origin": own, "Sec-Fetch-Site": "same-origin"}
    assert visitor.http.post("/api/reveal", json=REVEAL, headers=headers).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "garbage"])
def test_what_a_browser_says_comes_from_elsewhere_is_refused(visitor: Visitor, site: str) -> None:
    assert visitor.http.get("/api/workbench", headers={"Sec-Fetch-Site": site}).status_code == 403


def test_other_sites_are_never_told_that_they_may(visitor: Visitor) -> None:
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    answer = visitor.http.options("/api/reveal", headers=asked)
    assert answer.status_code == 403
    assert visitor.http.options("/api/reveal").status_code == 405
    assert not any(name.startswith("access-control") for name in answer.headers)


def test_headers_that_decide_must_not_be_sent_twice(visitor: Visitor) -> None:
    _, port = address_of(visitor)
    token = token_of(visitor)
    twice = f"X-Holdfast-Token: {token}\r\nX-Holdfast-Token: {token}\r\n"
    answer = raw(visitor, f"GET /api/workbench HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{twice}Connection: close\r\n\r\n")
    assert status_of(answer) == 400


@pytest.mark.parametrize(
    "path", ["/?token={token}", "/api/workbench", "/nothing", "/?token=wrong", "/?token={token}" + 20 * "&a=b"]
)
def test_every_answer_is_closed_to_other_sites_and_caches(visitor: Visitor, path: str) -> None:
    answer = visitor.http.get(path.replace("{token}", token_of(visitor)))
    for name, value in HEADERS.items():
        assert answer.headers.get_list(name) == [value]
    assert "server" not in answer.headers


# -- where --------------------------------------------------------------------------------------------------------

PATHS = (
    "/../etc/passwd",
    "/api/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/api/%2e%2e/workbench",
    "/api/jobs/..%2f..%2fetc%2fpasswd",
    "/api/jobs/%00",
    "/api/jobs/%00/events",
    "//api/workbench",
    "/api//workbench",
    "/api/workbench/",
    "/api/workbench%00",
    "/api/workbench\\",
    "/assets/explore.js",
    "/favicon.ico",
    "/index.html",
    "/" + "a" * 5000,
)


@pytest.mark.parametrize("path", PATHS, ids=range(len(PATHS)))
def test_paths_lead_nowhere_else(visitor: Visitor, path: str) -> None:
    head = f"Host: 127.0.0.1:{address_of(visitor)[1]}\r\nX-Holdfast-Token: {token_of(visitor)}\r\nConnection: close\r\n"
    answer = raw(visitor, f"GET {path} HTTP/1.1\r\n{head}\r\n")
    assert status_of(answer) == 404
    assert b"root:" not in answer


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/"), ("DELETE", "/api/workbench"), ("GET", "/api/reveal"), ("PUT", "/api/jobs/x"), ("GET", "/api/jobs")],
)
def test_other_verbs_are_refused(visitor: Visitor, method: str, path: str) -> None:
    answer = visitor.http.request(method, path, params={"token": token_of(visitor)})
    assert answer.status_code == 405
    assert answer.json()["error"]["message"] == "This address does not take that HTTP method."


def test_a_job_of_another_start_is_not_found(visitor: Visitor) -> None:
    for path in ("/api/jobs/nothing", "/api/jobs/nothing/events"):
        assert visitor.get(path).status_code == 404


@pytest.mark.parametrize("query", [{"after": "-1"}, {"after": "x"}, {"after": "9" * 99}, {"seconds": "inf"}])
def test_numbers_in_addresses_are_whole(visitor: Visitor, query: dict[str, str]) -> None:
    job = visitor.submit("certify", VIEW, radius=1)
    assert visitor.get(f"/api/jobs/{job}/events", **query).status_code == 400


@pytest.mark.parametrize("tab", ["", "a b", "a" * 65, "é", "<b>"])
def test_names_of_tabs_are_plain(visitor: Visitor, tab: str) -> None:
    answer = visitor.http.post("/api/reveal", json=REVEAL, headers={"X-Holdfast-Tab": tab.encode()})
    assert answer.status_code == 400


# -- what ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_forms_of_other_sites_can_send_is_refused(visitor: Visitor, kind: str) -> None:
    answer = visitor.http.post("/api/reveal", content=json.dumps(REVEAL), headers={"Content-Type": kind})
    assert answer.status_code == 415


def test_json_may_say_its_encoding(visitor: Visitor) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    assert visitor.http.post("/api/reveal", content=json.dumps(REVEAL), headers=headers).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"view": NaN}', b"[" * 100_000, b'{"a":' * 50_000, b"9" * 9999],
    ids=["none", "half", "list", "null", "text", "bytes", "nan", "deep list", "deep object", "long number"],
)
def test_bodies_that_are_no_json_object_are_refused(visitor: Visitor, body: bytes) -> None:
    for path in ("/api/reveal", "/api/jobs", "/api/export/python", "/api/export/png"):
        answer = visitor.http.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 400, path
        assert len(answer.json()["error"]["message"]) < 400


def test_a_body_that_is_too_large_is_refused_before_it_is_read(visitor: Visitor) -> None:
    connection = http.client.HTTPConnection(*address_of(visitor), timeout=PATIENCE)
    connection.putrequest("POST", "/api/reveal")
    connection.putheader("X-Holdfast-Token", token_of(visitor))
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(MOST_BYTES + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_a_body_that_does_not_say_how_large_it_is_is_refused_when_it_is_too_large(visitor: Visitor) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(64):
            yield b" " * (MOST_BYTES // 32)

    try:
        answer = visitor.http.post("/api/reveal", content=parts(), headers={"Content-Type": "application/json"})
    except httpx.TransportError:
        return  # the server closed the connection while the rest was still being sent
    assert answer.status_code == 413


@pytest.mark.parametrize("length", ["-1", "x", "1e3"])
def test_lengths_that_are_none_are_refused(visitor: Visitor, length: str) -> None:
    head = f"Host: 127.0.0.1:{address_of(visitor)[1]}\r\nX-Holdfast-Token: {token_of(visitor)}\r\n"
    answer = raw(visitor, f"POST /api/reveal HTTP/1.1\r\n{head}Content-Length: {length}\r\n\r\n{{}}")
    assert status_of(answer) in (400, 413)


def test_garbage_is_answered_and_the_server_lives_on(visitor: Visitor) -> None:
    for junk in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" + bytes(200), b"A" * 70_000):
        assert status_of(raw(visitor, junk, wait=0.5)) in (0, 400, 421)
    assert visitor.get("/api/workbench").is_success


def test_a_client_that_sends_slowly_delays_nobody_and_is_sent_away(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_TIMEOUT", 0.5)
    host, port = address_of(visitor)
    head = f"POST /api/reveal HTTP/1.1\r\nHost: {host}:{port}\r\nX-Holdfast-Token: {token_of(visitor)}\r\n"
    slow = [socket.create_connection((host, port), timeout=PATIENCE) for _ in range(40)]
    for sock in slow[:20]:
        sock.sendall(head[:30].encode())
    for sock in slow[20:]:
        sock.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
    assert visitor.reveal(VIEW, [0])["agrees"]
    assert all(status_of(sock.recv(4096)) == 408 for sock in slow[20:])
    for sock in slow:
        sock.close()


def silent(visitor: Visitor, n: int) -> list[socket.socket]:
    """Connections without a token that never say anything."""
    return [socket.create_connection(address_of(visitor), timeout=PATIENCE) for _ in range(n)]


def test_hundreds_of_silent_connections_shut_nobody_out() -> None:
    with serving(fake_workbench(quick=decide)) as one:
        idle = silent(one, 600)
        assert one.reveal(VIEW, [0])["agrees"]
        for sock in idle[: -guard.MOST_SILENT]:
            assert sock.recv(1) == b"", "the oldest are closed"
        for sock in idle:
            sock.close()


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: 127"], ids=["nothing", "half of the headers"])
def test_a_connection_whose_headers_do_not_come_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HEADER_TIMEOUT", 0.2)
    with serving(fake_workbench(quick=decide)) as one:
        (sock,) = silent(one, 1)
        sock.sendall(said)
        assert sock.recv(1) == b""
        sock.close()


def test_headers_of_a_second_request_are_waited_for_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(fake_workbench(quick=decide)) as one:
        head = f"Host: 127.0.0.1:{address_of(one)[1]}\r\nX-Holdfast-Token: {token_of(one)}\r\n"
        (sock,) = silent(one, 1)
        sock.sendall(f"GET /api/nothing HTTP/1.1\r\n{head}\r\n".encode())
        assert status_of(sock.recv(65536)) == 404
        monkeypatch.setattr(guard, "HEADER_TIMEOUT", 0.2)
        sock.sendall(b"GET /api/no")
        while sock.recv(65536):
            pass  # the rest of the answer, and then the end
        sock.close()


def test_a_request_that_takes_longer_than_its_headers_may_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HEADER_TIMEOUT", 0.2)
    with serving(fake_workbench(quick=Slow(seconds=0.5))) as one:
        assert one.reveal(VIEW, [0])["agrees"]


def test_a_client_that_does_not_read_holds_up_nobody(visitor: Visitor) -> None:
    host, port = address_of(visitor)
    head = f"Host: {host}:{port}\r\nX-Holdfast-Token: {token_of(visitor)}\r\n"
    deaf = [socket.create_connection((host, port), timeout=PATIENCE) for _ in range(10)]
    for sock in deaf:
        sock.sendall(f"GET /api/inputs?model=test:quick HTTP/1.1\r\n{head}\r\n".encode() * 50)
    assert visitor.reveal(VIEW, [0, 1])["n_added"] == 1
    for sock in deaf:
        sock.close()


def test_hostile_texts_are_sent_as_json_and_never_as_html(visitor: Visitor) -> None:
    answer = visitor.get("/api/inputs", model="test:quick")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["inputs"][1]["short"].startswith("</script><script>")
    explained = visitor.ask("explain", VIEW | {"input": "1"})
    assert explained["picture"]["parts"][0][0].startswith("</script>")
