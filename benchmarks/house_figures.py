"""The files of a package → how many, how long and how cut up they are: what ``python -m benchmarks house`` prints."""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

import numpy as np

UPPER_ROOMS = (
    "__main__",
    "bench",
    "cli",
    "commands",
    "demo",
    "experiments",
    "explore",
    "interop",
    "question",
    "report",
    "reproduce",
    "study",
)
"""What stands on the ground floor; every other file and folder of the package is part of it."""

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
_ENTRANCES = ("__init__.py", "__main__.py")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, eq=False)
class Module:
    """A file of a package: ``holdfast.plans.design`` is ``plans/design.py`` below ``holdfast``."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def n_lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def is_entrance(self) -> bool:
        """Whether the file's name is Python's choice."""
        return self.path.name in _ENTRANCES

    @property
    def is_ground_floor(self) -> bool:
        return self.path.parts[0].removesuffix(".py") not in UPPER_ROOMS

    @cached_property
    def code(self) -> frozenset[int]:
        """The numbers of the lines that hold code: no blank ones, no comments, no strings that stand alone."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        code = {line for token in tokens if token.type not in _NO_CODE for line in _lines(token.start[0], token.end[0])}
        return frozenset(
            code - {line for node in ast.walk(self.tree) if _is_docstring(node) for line in _lines_of(node)}
        )

    @property
    def classes(self) -> list[str]:
        return [node.name for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]

    @cached_property
    def functions(self) -> list[Function]:
        """Functions, methods, and functions inside functions."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)]

    @property
    def body_lengths(self) -> list[int]:
        """Lines of code of each function, without its signature."""
        return [
            sum(line in self.code for part in function.body for line in _lines_of(part)) for function in self.functions
        ]

    @property
    def n_import_lines(self) -> int:
        imports = [node for node in ast.walk(self.tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        return len({line for node in imports for line in _lines_of(node)})

    @property
    def called_once(self) -> list[str]:
        """Private functions whose name the module writes once besides where it defines them."""
        used = Counter(_names_used(self.tree))
        defined = Counter(function.name for function in self.functions)
        return [name for name, n in defined.items() if _is_private(name) and n == 1 and used[name] == 1]

    def imports(self, known: frozenset[str]) -> set[str]:
        """Which of the known modules it imports, at once, in a function, or by a name listed in ``__init__.py``."""
        return {name for node in ast.walk(self.tree) for name in self._named(node, known)} - {self.name}

    def _named(self, node: ast.AST, known: frozenset[str]) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            for alias in node.names:
                inner = f"{origin}.{alias.name}"
                yield from {inner if inner in known else origin} & known
        elif isinstance(node, ast.Constant) and self.path.name == "__init__.py" and isinstance(node.value, str):
            yield from {node.value} & known


@dataclass(frozen=True, eq=False)
class House:
    """All files of a package, or of one of its floors."""

    modules: tuple[Module, ...]

    @classmethod
    def read(cls, package: Path) -> House:
        return cls(tuple(_modules(package)))

    @property
    def ground_floor(self) -> House:
        return House(tuple(module for module in self.modules if module.is_ground_floor))

    @property
    def n_lines(self) -> int:
        return sum(module.n_lines for module in self.modules)

    @property
    def n_code_lines(self) -> int:
        return sum(len(module.code) for module in self.modules)

    @property
    def n_classes(self) -> int:
        return sum(len(module.classes) for module in self.modules)

    @property
    def n_functions(self) -> int:
        return sum(len(module.functions) for module in self.modules)

    @property
    def median_file_length(self) -> float:
        return median(module.n_lines for module in self.modules)

    def body_length(self, percent: float) -> float:
        """The length of a function's body that so many percent do not exceed."""
        lengths = [length for module in self.modules for length in module.body_lengths]
        return float(np.percentile(lengths, percent, method="inverted_cdf"))

    @property
    def functions_per_thousand_lines(self) -> float:
        return 1000 * self.n_functions / self.n_code_lines

    @property
    def import_share(self) -> float:
        """Percent of the lines that are part of an import."""
        return 100 * sum(module.n_import_lines for module in self.modules) / self.n_lines

    @property
    def repeated_file_names(self) -> dict[str, int]:
        return _repeated([module.path.name for module in self.modules if not module.is_entrance])

    @property
    def repeated_class_names(self) -> dict[str, int]:
        return _repeated([name for module in self.modules for name in module.classes])

    @cached_property
    def with_one_importer(self) -> tuple[Module, ...]:
        """Modules that exactly one other module imports; files whose name is Python's choice are left out."""
        known = frozenset(module.name for module in self.modules)
        importers = Counter(name for module in self.modules for name in module.imports(known))
        return tuple(module for module in self.modules if importers[module.name] == 1 and not module.is_entrance)

    @property
    def n_called_once(self) -> int:
        return sum(len(module.called_once) for module in self.modules)


def n_options(parser: argparse.ArgumentParser) -> int:
    """How many options a command line has: those of all its commands, without ``--help``."""
    total = 0
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            total += sum(n_options(command) for command in action.choices.values())
        else:
            total += bool(action.option_strings) and action.dest != "help"
    return total


def _modules(package: Path) -> Iterator[Module]:
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        parts = (package.name, *inside.with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, inside, path.read_text(encoding="utf-8"))


def _lines(start: int, end: int) -> range:
    return range(start, end + 1)


def _lines_of(node: ast.stmt) -> range:
    return _lines(node.lineno, node.end_lineno or node.lineno)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _names_used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def _repeated(names: Sequence[str]) -> dict[str, int]:
    """Names that come more than once, the most common first."""
    return {name: n for name, n in Counter(names).most_common() if n > 1}
