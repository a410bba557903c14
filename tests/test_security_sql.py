"""SQL is written down, never put together from values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.test_security import SOURCES, calls

RUNS_SQL = {"execute": 0, "executemany": 0, "executescript": 0, "query": 0, "_one": 0}
PASSES_ON = RUNS_SQL | {"_count": 1, "_row": 1}
"""What runs SQL, and at which place it is given the statement."""


def is_constant(node: ast.expr | None) -> bool:
    """A text that is written down, or put together from names of constants and whole numbers alone."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Name):
        return node.id.strip("_").isupper()
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_").isupper()
    if isinstance(node, ast.JoinedStr):
        return all(_is_safe_part(part) for part in node.values)
    return isinstance(node, ast.Call) and _is_filled_with_marks(node)


def _is_filled_with_marks(call: ast.Call) -> bool:
    """``_CONSTANT.format(names=_marks(names))``: as many question marks as there are values."""
    is_format = isinstance(call.func, ast.Attribute) and call.func.attr == "format" and is_constant(call.func.value)
    return is_format and not call.args and all(ast.unparse(one.value).startswith("_marks(") for one in call.keywords)


def _is_safe_part(part: ast.expr) -> bool:
    if not isinstance(part, ast.FormattedValue):
        return True
    text = ast.unparse(part.value)
    return is_constant(part.value) or text.startswith("len(") or text == "marks"


def statements(tree: ast.AST, *, runs: Mapping[str, int] = RUNS_SQL) -> Iterator[tuple[ast.expr, ast.AST]]:
    """What is run as SQL, with the function that runs it."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for _, name, call in calls(function):
                if len(call.args) > runs.get(name, len(call.args)):
                    yield call.args[runs[name]], function


def assigned(name: str, function: ast.AST) -> list[ast.expr]:
    """What a local name stands for in a function."""
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    return [node.value for node in nodes if any(isinstance(one, ast.Name) and one.id == name for one in node.targets)]


PASSED_ON = {f"src/holdfast/study/{name}.py" for name in ("store", "schema", "merge", "seals", "status")}
"""Where a function runs the ``statement`` that it was given: those who give it are looked at as well.

In ``seals`` it is made of the names of our own tables and of their columns, which are compared with ours before.
"""


def test_sql_is_never_put_together_from_values() -> None:
    looked_at, odd = 0, []
    for name, tree in SOURCES.items():
        for statement, function in statements(tree, runs=PASSES_ON if name in PASSED_ON else RUNS_SQL):
            looked_at += 1
            local = assigned(statement.id, function) if isinstance(statement, ast.Name) else []
            fine = is_constant(statement) or (local and all(map(is_constant, local)))
            passed_on = name in PASSED_ON and isinstance(statement, ast.Name) and statement.id == "statement"
            if not fine and not passed_on:
                odd.append(f"{name}: {ast.unparse(statement)}")
    assert looked_at > 40
    assert odd == []


@pytest.mark.parametrize(
    "code", ["run(f'SELECT {value}')", "run('SELECT %s' % value)", "run('S {}'.format(value))", "run('S' + value)"]
)
def test_the_search_for_such_sql_finds_it(code: str) -> None:
    tree = ast.parse(f"def f(value):\n    store.{code.replace('run', 'execute')}")
    ((statement, _),) = statements(tree)
    assert not is_constant(statement)
