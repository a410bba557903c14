"""What `python -m benchmarks house` counts is what is there, and the house keeps its floor plan."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from benchmarks.bench_house import (
    MOST_LOADED,
    MOST_USES_OF_A_FILE_NAME,
    ROOT,
    _unpack,
    loaded_by_certify,
    strangers,
)
from benchmarks.house_figures import House

FILES = {
    "__init__.py": '''
        """A tiny package."""

        from tiny.core import certify

        LATER = {"draw": "tiny.report.figures"}
        ''',
    "core.py": '''
        """What everything stands on."""

        from tiny.words import (
            percent,
        )

        LIMIT = 3
        """The most."""


        class Rate:
            """A rate."""

            def __str__(self) -> str:
                return percent(self)

            def _shown(self):
                # a comment
                return self


        def certify(
            model,
            *,
            radius,
        ):
            """Certify it.

            At length.
            """
            rows = [
                model,

                radius,
            ]
            return _check(_twice(_twice(rows)))


        def _check(rows):
            return rows


        def _twice(rows):
            return rows
        ''',
    "words.py": '''
        def percent(share):
            text = """
            one string
            """
            return text


        class Row:
            pass
        ''',
    "study/__init__.py": "from tiny.core import Rate\n",
    "study/words.py": """
        import tiny.core


        class Rate:
            class Row:
                pass
        """,
    "report/__init__.py": "",
    "report/figures.py": """
        def draw():
            from tiny.study import words

            return words
        """,
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    for name, text in FILES.items():
        path = tmp_path / "tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).removeprefix("\n"), encoding="utf-8")
    return House.read(tmp_path / "tiny")


def test_modules_and_lines_are_counted(house: House) -> None:
    assert [module.name for module in house.modules] == [
        "tiny",
        "tiny.core",
        "tiny.report",
        "tiny.report.figures",
        "tiny.study",
        "tiny.study.words",
        "tiny.words",
    ]
    assert {module.name: module.n_lines for module in house.modules} == {
        "tiny": 5,
        "tiny.core": 44,
        "tiny.report": 0,
        "tiny.report.figures": 4,
        "tiny.study": 1,
        "tiny.study.words": 6,
        "tiny.words": 9,
    }
    assert house.n_lines == 69
    assert house.median_file_length == 5


def test_blank_lines_comments_and_strings_that_stand_alone_are_no_code(house: House) -> None:
    code = {module.name: len(module.code) for module in house.modules}
    assert code == {
        "tiny": 2,
        "tiny.core": 23,
        "tiny.report": 0,
        "tiny.report.figures": 3,
        "tiny.study": 1,
        "tiny.study.words": 4,
        "tiny.words": 7,
    }
    assert house.n_code_lines == sum(code.values())


def test_functions_are_measured_without_signature_and_docstring(house: House) -> None:
    lengths = {
        function.name: length
        for module in house.modules
        for function, length in zip(module.functions, module.body_lengths, strict=True)
    }
    assert lengths == {"__str__": 1, "_shown": 1, "certify": 5, "_check": 1, "_twice": 1, "percent": 4, "draw": 2}
    assert (house.body_length(50), house.body_length(90)) == (1, 5)
    assert house.functions_per_thousand_lines == 1000 * 7 / 40


def test_imports_count_with_all_their_lines(house: House) -> None:
    assert house.import_share == 100 * 7 / 69


def test_names_that_come_twice_are_counted_with_inner_classes_and_without_entrances(house: House) -> None:
    assert house.n_classes == 4
    assert house.repeated_class_names == {"Rate": 2, "Row": 2}
    assert house.repeated_file_names == {"words.py": 2}


def test_the_ground_floor_is_what_is_in_no_upper_room(house: House) -> None:
    ground = house.ground_floor
    assert [module.name for module in ground.modules] == ["tiny", "tiny.core", "tiny.words"]
    assert ground.repeated_class_names == {}
    assert ground.n_lines == 58


def test_importers_are_counted_wherever_they_import(house: House) -> None:
    """At once, in a function, and by a name that ``__init__.py`` lists; ``tiny.core`` has three."""
    assert [module.name for module in house.with_one_importer] == [
        "tiny.report.figures",
        "tiny.study.words",
        "tiny.words",
    ]


def test_private_functions_that_are_used_once_are_counted(house: House) -> None:
    """``_twice`` is used twice, ``_shown`` never, and ``certify`` is not private."""
    assert [name for module in house.modules for name in module.called_once] == ["_check"]
    assert house.n_called_once == 1


def test_modules_of_rooms_that_a_command_does_not_need_are_named() -> None:
    loaded = ["holdfast", "holdfast.certification.study", "holdfast.explore", "holdfast.report.page", "holdfast.words"]
    assert strangers(loaded) == ["holdfast.explore", "holdfast.report.page"]


def test_a_revision_that_is_not_there_is_not_counted(tmp_path: Path) -> None:
    assert not _unpack("0" * 40, tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- the floor plan ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def holdfast() -> House:
    return House.read(ROOT / "src" / "holdfast")


def test_the_package_itself_is_counted(holdfast: House) -> None:
    assert 0 < holdfast.n_code_lines < holdfast.n_lines
    assert {"holdfast", "holdfast.errors"} <= {module.name for module in holdfast.ground_floor.modules}


def test_a_class_name_of_the_ground_floor_means_one_thing(holdfast: House) -> None:
    assert holdfast.ground_floor.repeated_class_names == {}


def test_no_file_name_is_used_more_than_twice(holdfast: House) -> None:
    assert {name: n for name, n in holdfast.repeated_file_names.items() if n > MOST_USES_OF_A_FILE_NAME} == {}


def test_certifying_a_row_of_a_table_loads_few_modules_and_no_upper_room() -> None:
    pytest.importorskip("skops")
    loaded = loaded_by_certify()
    assert strangers(loaded) == []
    assert len(loaded) <= MOST_LOADED, loaded


def test_tests_of_the_core_need_no_package_but_numpy_and_scipy() -> None:
    tools = {"hypothesis", "numpy", "pytest", "scipy", "tests", "holdfast"}
    for path in (ROOT / "tests" / "core").glob("*.py"):
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        imports = [node for node in tree if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {getattr(node, "module", None) or alias.name for node in imports for alias in node.names}
        strange = {name.split(".")[0] for name in names} - tools - sys.stdlib_module_names
        assert not strange, f"{path.name} belongs to tests/edge: it imports {', '.join(strange)}"
