"""Errors have fields, keep them wherever they are sent, and nobody reads them back from the message."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

import holdfast
from holdfast import errors
from holdfast.errors import (
    ArgumentError,
    ColumnsError,
    HoldfastError,
    InvalidTypeError,
    InvalidValueError,
    MissingGradientsError,
    ModelError,
    StoreError,
    StudyError,
    StudyMismatchError,
)

ROOT = Path(holdfast.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HoldfastError)]
OF_ARGUMENTS = [kind for kind in KINDS if issubclass(kind, ArgumentError)]
NAMES = {"kind", *(kind.__name__ for kind in OF_ARGUMENTS)}


# -- fields -----------------------------------------------------------------------------------------


def test_an_argument_error_says_its_fields() -> None:
    error = InvalidValueError(argument="radius", must="be a whole number ≥ 0", got=-1, hint="Try 1.")
    assert str(error) == "`radius` must be a whole number ≥ 0, got -1. Try 1."
    assert (error.argument, error.must, error.got, error.hint) == ("radius", "be a whole number ≥ 0", "-1", "Try 1.")
    assert str(InvalidTypeError(argument="scores", must="be numbers")) == "`scores` must be numbers."


def test_a_statement_follows_the_name_of_its_argument() -> None:
    error = InvalidValueError("cannot be read from 'within(x)'.", argument="agree")
    assert str(error) == "`agree` cannot be read from 'within(x)'."
    assert error.about("--agree") == "`--agree` cannot be read from 'within(x)'."
    assert (error.must, error.got, error.hint) == (None, None, None)


def test_a_message_about_no_argument_stays_as_it_is() -> None:
    error = InvalidValueError("'b.png' is no image.")
    assert error.argument is None
    assert error.about("--image") == str(error) == "'b.png' is no image."


def test_a_hint_is_added_under_every_name() -> None:
    error = InvalidValueError(argument="n", must="be at most 3", got=5)
    error.add_hint("Ask for 3.")
    error.add_hint("Or fewer.")
    assert str(error) == error.about("n") == "`n` must be at most 3, got 5. Ask for 3. Or fewer."
    assert error.about("--n") == "`--n` must be at most 3, got 5. Ask for 3. Or fewer."
    assert error.hint == "Ask for 3. Or fewer."
    for kind in (ModelError, StoreError, StudyError, InvalidTypeError):
        plain = kind("It is gone.")
        plain.add_hint("Look elsewhere.")
        assert str(plain) == "It is gone. Look elsewhere."


# -- in other processes -----------------------------------------------------------------------------


def sent(error: HoldfastError) -> HoldfastError:
    """The error as another process reads it."""
    received: HoldfastError = pickle.loads(pickle.dumps(error))
    return received


@pytest.mark.parametrize("kind", OF_ARGUMENTS)
def test_an_argument_error_keeps_its_fields_wherever_it_is_sent(kind: type[ArgumentError]) -> None:
    class Odd:
        """Known here only, so that it cannot be sent."""

    error = kind(argument="data.n", must="fit", got=Odd(), hint="Try 3.")
    error.add_note("In a worker process.")
    for other in (sent(error), copy.copy(error), copy.deepcopy(error)):
        assert type(other) is kind
        assert vars(other) == vars(error)
        assert (str(other), other.about("--n")) == (str(error), error.about("--n"))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_is_read_as_it_was_sent(kind: type[HoldfastError]) -> None:
    other = sent(kind("What went wrong."))
    assert (type(other), str(other)) == (kind, "What went wrong.")


@pytest.mark.parametrize("kind", [StudyError, StudyMismatchError])
def test_a_study_error_is_sent_with_its_cause(kind: type[StudyError]) -> None:
    cause = ColumnsError(argument="row", must="have 4 columns", got=5)
    other = sent(kind(f"Input 3: {cause}", cause=cause))
    assert isinstance(other, StudyError)
    assert isinstance(other.cause, ColumnsError)
    assert (str(other), other.cause.argument) == ("Input 3: `row` must have 4 columns, got 5.", "row")


# -- messages are for people ------------------------------------------------------------------------

FOREIGN = {
    "calls.py:is_out_of_memory": "CUDA, ONNX Runtime and torch on the CPU raise a plain RuntimeError",
    "speed.py:run": "torch refuses a layout by a plain RuntimeError",
    "speed.py:run_untimed": "torch refuses a layout by a plain RuntimeError",
    "causal.py:_logits": "CUDA and torch on the CPU raise a plain RuntimeError when memory runs out",
    "models.py:_scores_of": "torch refuses a number of channels by a plain RuntimeError",
    "mask_tabular.py:explain_refusal": "XGBoost, LightGBM, CatBoost and scikit-learn refuse missing values in words",
    "schema.py:wrapping_errors": "the sqlite3 of Python gives text that is no UTF-8 no code",
    "jobs.py:describe_error": "ends the sentence of an error that a model raised",
}
"""Functions that may look into the message of another library's error, and why that is all there is."""

TESTS = {"startswith", "endswith", "find", "index", "count", "removeprefix", "split", "replace"}
MAY_TAKE = {"print", "len", "shown", "shorten", "as_error", "error_response", "get"}
"""Methods that decide by a text; functions that only pass a message on."""


def is_error(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def says_message(node: ast.AST, names: set[str], texts: set[str]) -> bool:
    """Whether the message of an error is somewhere in an expression."""
    return any(
        is_error(part, texts)
        or (isinstance(part, ast.Attribute) and part.attr == "args" and is_error(part.value, names))
        or (is_text(part) and any(is_error(argument, names) for argument in part.args))
        for part in ast.walk(node)
    )


def is_text(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr")


def names_of_errors(function: ast.AST) -> set[str]:
    """What errors are called in a function: by handlers, by annotated parameters, or by the usual name."""
    nodes = list(ast.walk(function))
    handled = {node.name for node in nodes if isinstance(node, ast.ExceptHandler) and node.name}
    parameters = {
        node.arg: ast.unparse(node.annotation) for node in nodes if isinstance(node, ast.arg) and node.annotation
    }
    return {"error"} | handled | {name for name, kind in parameters.items() if kind.endswith(("Error", "Exception"))}


def decides(node: ast.AST, names: set[str], texts: set[str]) -> bool:
    """Whether a message is compared, searched or handed to a function that might do so."""
    if isinstance(node, ast.Compare):
        return any(says_message(side, names, texts) for side in (node.left, *node.comparators))
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr in TESTS:
        return says_message(node.func.value, names, texts)
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    takes = any(is_text(argument) and says_message(argument, names, texts) for argument in node.args)
    return takes and not (name in MAY_TAKE or name.endswith("Error"))


def readers(source: str) -> Iterator[tuple[str, int]]:
    """Functions that read what an error says, with the line."""
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        names = names_of_errors(function)
        if not any(is_error(node, names) for node in ast.walk(function)):
            continue
        texts = {
            target.id
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and says_message(node.value, names, set())
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(function):
            if decides(node, names, texts) and not _is_length(node):
                yield function.name, getattr(node, "lineno", 0)


def _is_length(node: ast.AST) -> bool:
    """Whether a comparison is about how long a message is."""
    return isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("len(")


def test_no_module_reads_the_message_of_an_error() -> None:
    reading = {f"{path.name}:{function}" for path in SOURCES for function, _ in readers(path.read_text())}
    assert reading == set(FOREIGN)


@pytest.mark.parametrize(
    "body",
    [
        "if 'another file' not in str(error): raise",
        "if str(error).startswith('`'): raise",
        "words = str(error)\n        if 'gradients' in words: raise",
        "match = re.match('`(.*)`', str(error))",
        "words = advice(str(error))",
        "if error.args[0] == 'x': raise",
    ],
)
def test_readers_of_messages_are_found(body: str) -> None:
    source = f"def work():\n    try:\n        pass\n    except StudyError as error:\n        {body}\n"
    assert [name for name, _ in readers(source)] == ["work"]


def wordings(tree: ast.Module) -> Iterator[str]:
    """Errors made of a message that begins with the name of an argument, and not of fields."""
    texts = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in NAMES and call.args:
            start: ast.AST = call.args[0]
            while isinstance(start, (ast.JoinedStr, ast.FormattedValue)):
                start = start.values[0] if isinstance(start, ast.JoinedStr) else start.value
            if ast.unparse(texts.get(getattr(start, "id", ""), start)).lstrip("f'\"").startswith("`"):
                yield ast.unparse(call)


def test_errors_about_arguments_are_made_of_fields() -> None:
    assert [(path.name, call) for path in SOURCES for call in wordings(ast.parse(path.read_text()))] == []


@pytest.mark.parametrize("body", ["f'`{name}` must fit.'", "f'{wanted}, got {value}.'", "wanted", "'`k` must fit.'"])
def test_errors_about_arguments_without_fields_are_found(body: str) -> None:
    assert len(list(wordings(ast.parse(f"wanted = '`k` must fit'\nraise InvalidValueError({body})")))) == 1


def test_what_an_error_is_about_can_be_told_by_its_kind() -> None:
    assert issubclass(MissingGradientsError, InvalidTypeError)
    assert issubclass(ColumnsError, InvalidValueError)
    assert issubclass(StudyMismatchError, StudyError)
