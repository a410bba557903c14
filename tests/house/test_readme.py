"""The blocks of the README and the documentation run and print what the pages say they print.

The Python blocks of one page run in order in one namespace and in an empty folder. A fenced ``text`` block titled
"output" states what the block right before it prints; white space is free, so that a long sentence may be wrapped. A
``sh`` block that is followed by such an output runs as well; of all others every ``holdfast`` command must be one that
the command line understands. After numbers moved on purpose, ``python tests/house/test_readme.py`` writes what is
printed now into the pages.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli import command_parser, main
from tests.helpers.rooms import names_in_rooms

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
PAGES_WITH_PYTHON = [
    "README.md",
    *(f"docs/start/{kind}.md" for kind in ("image", "text", "table", "context")),
    *("docs/guarantee.md", "docs/studies.md"),
]
OUTPUT = 'text title="output"'
WIDTH = 100

FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: what its opening line says, its text, and where the text begins."""

    info: str
    body: str
    start: int
    line: int


def blocks_of(text: str) -> list[Block]:
    return [
        Block(found["info"].strip(), found["body"], found.start("body"), text.count("\n", 0, found.start("body")))
        for found in FENCED.finditer(text)
    ]


def commands_of(body: str) -> list[list[str]]:
    """The commands of a ``sh`` block as words: continued lines are joined, comments left out."""
    plain = re.sub(r"(^|\s)#.*", "", re.sub(r"\\\n\s*", " ", body), flags=re.MULTILINE)  # `digits#3` is a word
    return [words for line in plain.splitlines() if (words := shlex.split(line))]


def holdfast_commands(body: str) -> list[list[str]]:
    """The arguments of every ``holdfast`` command of a ``sh`` block, without what the shell does with them."""
    commands = [words for words in commands_of(body) if words[0] == "holdfast"]
    return [list(takewhile(lambda word: word not in ("&", "||"), words[1:])) for words in commands]


def run_commands(body: str) -> None:
    """Run a ``sh`` block of nothing but ``holdfast`` commands, and of ``echo`` with ``$?``, in this process."""
    code = 0
    for words in commands_of(body):
        assert words[0] in ("holdfast", "echo"), f"A page cannot run {words[0]!r}."
        if words[0] == "echo":
            print(" ".join(words[1:]).replace("$?", str(code)))
        else:
            code = main(words[1:])


def run_page(text: str, name: str) -> Iterator[tuple[str, Block | None]]:
    """Run the page's blocks; yields what each printed and the block that states it, if any."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block, after in pairwise([*blocks_of(text), None]):
            stated = after if after is not None and after.info == OUTPUT else None
            if block is None or not (block.info == "python" or (block.info == "sh" and stated)):
                continue
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                if block.info == "sh":
                    with contextlib.redirect_stderr(printed):
                        run_commands(block.body)
                else:
                    # The blank lines make a traceback point at the line of the page.
                    exec(compile("\n" * block.line + block.body, name, "exec"), namespace)
            yield printed.getvalue(), stated


def check_page(text: str, name: str) -> int:
    """Run a page, compare every stated output, and return the number of blocks that ran."""
    blocks = blocks_of(text)
    n_fences = len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE))
    assert n_fences == 2 * len(blocks), f"{name} has a fence that is indented, open or made of tildes."
    assert all(block.info != "" for block in blocks), f"{name} has a fenced block without a language."
    n_run = n_compared = 0
    for printed, stated in run_page(text, name):
        n_run += 1
        if stated is not None:
            n_compared += 1
            assert printed.split() == stated.body.split(), f"{name} states\n{stated.body}\nbut prints\n{printed}"
    assert n_compared == sum(block.info == OUTPUT for block in blocks), (
        f"{name} states an output of no block that runs."
    )
    return n_run


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_python_blocks_run_and_print_what_the_page_states(page: Path) -> None:
    n_run = check_page(page.read_text(encoding="utf-8"), name_of(page))
    assert n_run > 0 or name_of(page) not in PAGES_WITH_PYTHON


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_holdfast_command_is_understood(page: Path) -> None:
    for block in blocks_of(page.read_text(encoding="utf-8")):
        for words in holdfast_commands(block.body) if block.info == "sh" else []:
            command_parser().parse_args(words)


def test_a_command_that_is_not_understood_is_found() -> None:
    assert holdfast_commands("holdfast check \\\n    --radius 3  # why\nls\n") == [["check", "--radius", "3"]]
    with pytest.raises(SystemExit):
        command_parser().parse_args(["check", "--radius", "3"])


def test_commands_with_a_stated_output_run_and_their_exit_code_can_be_shown() -> None:
    page = make_page(("sh", "holdfast reproduce nothing\necho exit code $?"), (OUTPUT, ""))
    filled = with_printed_outputs(page, "page")
    assert "got 'nothing'" in filled
    assert "exit code 3\n" in filled
    assert check_page(filled, "page") == 1
    with pytest.raises(AssertionError, match="cannot run 'rm'"):
        check_page(make_page(("sh", "rm -r ."), (OUTPUT, "")), "page")


def test_every_page_that_promises_python_exists() -> None:
    assert set(PAGES_WITH_PYTHON) <= {name_of(page) for page in PAGES}


def test_the_api_page_lists_every_public_name() -> None:
    # A function that is called as its module is named with it, or the page would show the module.
    listed = re.findall(r"^::: holdfast\.([\w.]+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.M)
    public = {*holdfast.__all__, *(f"{room}.{name}" for room, name in names_in_rooms())}
    assert public - {"mean_curve"} | {"certification.mean_curve.mean_curve"} <= set(listed)
    assert {name for name in listed if "." not in name} <= public
    assert len(set(listed)) == len(listed)


def read(prompt: str) -> str:
    """A model for contexts that reads."""
    return "84 metres" if "84" in prompt else "I do not know"


def test_the_three_lines_for_each_kind_of_input_run_and_certify() -> None:
    rows = [line.split(" | ", 1)[1] for line in (ROOT / "README.md").read_text("utf-8").splitlines() if "<br>" in line]
    assert len(rows) == 4
    for row in rows:
        lines = re.findall(r"`([^`]+)`", row)
        assert len(lines) == 3
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec("\n".join(lines), {"hf": holdfast, "ask": read})
        assert re.search("prediction|[Aa]nswer", printed.getvalue())


def make_page(*blocks: tuple[str, str]) -> str:
    return "\n".join(f"```{info}\n{body}\n```\n" for info, body in blocks)


def test_blocks_of_a_page_share_a_namespace_and_outputs_may_be_wrapped() -> None:
    text = make_page(("python", "x = 'a b'"), ("python", "print(x)"), (OUTPUT, "a\nb"))
    assert check_page(text, "page") == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (make_page(("python", "print(1)"), (OUTPUT, "2")), "states"),
        (make_page(("python", "print(1)"), ("text", "aside"), (OUTPUT, "1")), "no block that runs"),
        (make_page((OUTPUT, "1")), "no block that runs"),
        (make_page(("", "1")), "without a language"),
        ("- item\n  ```python\n  print(1)\n  ```\n", "indented"),
        ("```python\nprint(1)\n", "open"),
    ],
)
def test_a_page_that_cannot_be_trusted_fails(text: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_page(text, "page")


def test_an_error_in_a_block_names_the_line_of_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        check_page("Title\n\n" + make_page(("python", "x = 1\nx / 0")), "page.md")
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.filename, last.lineno) == ("page.md", 5)


def wrapped(line: str) -> str:
    return line if len(line) <= WIDTH else textwrap.fill(line, WIDTH, break_on_hyphens=False, break_long_words=False)


def with_printed_outputs(text: str, name: str) -> str:
    """The page with every stated output replaced by what is printed now."""
    pieces, end = [], 0
    for printed, stated in run_page(text, name):
        if stated is not None and printed.split() != stated.body.split():
            lines = [wrapped(line) for line in printed.splitlines()]
            pieces += [text[end : stated.start], "\n".join(lines) + "\n"]
            end = stated.start + len(stated.body)
    return "".join([*pieces, text[end:]])


def test_a_stale_output_is_rewritten_and_the_rest_is_kept() -> None:
    stale = make_page(("python", "print(1)"), (OUTPUT, "2"), ("text", "aside"))
    assert with_printed_outputs(stale, "page") == make_page(("python", "print(1)"), (OUTPUT, "1"), ("text", "aside"))


if __name__ == "__main__":
    for each in PAGES:
        each.write_text(with_printed_outputs(each.read_text(encoding="utf-8"), name_of(each)), encoding="utf-8")
