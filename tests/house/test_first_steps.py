"""What a newcomer meets first: the extras that pages name, commands without them, and options that are mistyped."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast import attribute, certify, certify_radii, data, lookup_table, models, top
from holdfast.cli import main
from holdfast.evaluation import Evaluator

ROOT = Path(__file__).resolve().parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
IMPORTED_AS = {"scikit-learn": "sklearn", "scikit-image": "skimage", "pillow": "PIL"}
WITHOUT = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else PathFinder.find_spec(name, path, target)

sys.meta_path = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
"""
READ = """
from pathlib import Path
from tests.house.test_readme import check_page
print(check_page(Path({page!r}).read_text(encoding="utf-8"), {page!r}))
"""


def packages_of(extra: str) -> set[str]:
    """What an extra brings by name, in the words of ``import``."""
    brought: set[str] = set()
    for requirement in EXTRAS[extra]:
        inner = re.fullmatch(r"holdfast\[(.*)\]", requirement)
        name = re.split(r"[\[>=<]", requirement)[0]
        brought |= (
            set().union(*map(packages_of, inner[1].split(",")))
            if inner
            else {IMPORTED_AS.get(name, name.replace("-", "_"))}
        )
    return brought


def hidden_with(extras: str) -> list[str]:
    """The packages of all other extras."""
    kept = set().union(*map(packages_of, extras.split(","))) if extras else set()
    return sorted(packages_of("all") - kept)


def run_without(hidden: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter in which these packages cannot be imported."""
    command = [sys.executable, "-c", WITHOUT.format(hidden=hidden) + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=300)


@pytest.mark.parametrize("name", ["start/image", "start/text", "start/table", "inputs"])
def test_a_page_runs_with_the_extras_it_names_and_no_others(name: str) -> None:
    page = ROOT / "docs" / f"{name}.md"
    named = re.findall(r"pip install 'holdfast\[([a-z,]+)\]'", page.read_text(encoding="utf-8"))
    assert len(named) == 1
    done = run_without(hidden_with(named[0]), READ.format(page=str(page)))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3


def test_the_example_of_the_readme_needs_no_extra() -> None:
    done = run_without(hidden_with(""), READ.format(page=str(ROOT / "README.md")))
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 2


@pytest.mark.parametrize(
    ("arguments", "missing", "extras"),
    [
        (["demo"], "torch, transformers, Pillow, scikit-learn, vaderSentiment, skops", "hf,sklearn,text"),
        (["bench"], "torch, transformers, Pillow, scikit-learn", "hf,sklearn"),
        (
            [
                "certify",
                "--model",
                "bundled:digits-vit",
                "--input",
                "bundled:digits#5",
                "--radius",
                "2",
                "--method",
                "lime",
            ],
            "torch, transformers, Pillow, scikit-learn",
            "hf,sklearn",
        ),
    ],
    ids=["demo", "bench", "certify"],
)
def test_a_command_without_its_extras_names_them_all_in_one_command(
    arguments: list[str], missing: str, extras: str
) -> None:
    done = run_without(hidden_with(""), f"from holdfast.cli import main\nsys.exit(main({arguments!r}))")
    assert done.returncode == 3
    assert done.stderr.endswith(f" needs {missing}: pip install 'holdfast[{extras}]'\n")
    assert done.stdout == ""


def test_a_bundled_network_without_torch_names_the_extra_that_is_enough() -> None:
    code = "from holdfast.cli import main\nsys.exit(main({!r}))"
    asked = ["certify", "--model", "bundled:digits-resnet", "--input", "bundled:digits#8", "--method", "lime"]
    done = run_without(hidden_with("sklearn"), code.format([*asked, "--top", "8", "--radius", "4"]))
    assert done.returncode == 3
    told = "bundled:digits-resnet with bundled:digits needs torch, transformers, Pillow: pip install 'holdfast[hf]'"
    assert done.stderr == f"holdfast: {told}\n"


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (["certify", "--methods", "lime"], "unrecognized arguments: --methods lime. Did you mean --method?\n"),
        (["study", "run", "--bogus"], "--bogus. See `holdfast study run --help`.\n"),
    ],
    ids=["near", "far"],
)
def test_a_mistyped_option_is_told_by_the_command_it_was_given_to(
    arguments: list[str], end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--model", "bundled:vader", "--input", "text:fine", "--radius", "1"] if arguments[0] == "certify" else []
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, *asked])
    assert stopped.value.code == 3
    told = capsys.readouterr().err
    assert told.startswith(f"usage: holdfast {arguments[0]}")
    assert told.endswith(end)


def test_an_input_of_another_kind_is_told_in_the_words_of_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["certify", "--model", "bundled:vader", "--input", "cat.png", "--method", "lime", "--top", "1"]
    assert main([*asked, "--radius", "1"]) == 3
    assert capsys.readouterr().err == ("holdfast: `--model` must be a model for images, got one for texts.\n")


@pytest.mark.parametrize("content", [b"{", b"\xc0\xc1", b'{"schema": "holdfast.curve"}'], ids=["cut", "bytes", "other"])
def test_a_file_that_is_no_certificate_is_named(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cert.json"
    file.write_bytes(content)
    assert main(["verify", str(file), "--model", "bundled:vader", "--input", "text:a good day"]) == 3
    assert capsys.readouterr().err.startswith(f"holdfast: {str(file)!r} is not a readable result: ")


def test_the_class_of_a_certificate_is_told_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        "certify",
        "--model",
        "bundled:vader",
        "--input",
        "text:what a good day",
        "--method",
        "occlusion",
        "--top",
        "1",
    ]
    assert main([*asked, "--radius", "1"]) == 0
    assert "revealing up to 1 more feature keeps the prediction 'positive' in " in capsys.readouterr().out


def test_one_call_is_one_model_call() -> None:
    model = Evaluator(lookup_table([0, 1, 0, 1], n_features=2))
    first = certify(model, [True, False], radius=1)
    again = certify(model, [True, False], radius=1, check_determinism=False)
    assert (first.n_calls, first.n_repeated, again.n_calls, again.n_repeated) == (3, 1, 2, 0)
    assert "It took 3 model calls; 1 row computed twice had equal results." in first.explain()
    assert "It took 2 model calls and assumes that the model is deterministic." in again.explain()


def test_what_a_certificate_says_of_its_cost_does_not_depend_on_what_was_known_before() -> None:
    model = lookup_table([mask % 3 > 0 for mask in range(2**6)], n_features=6)
    selected = [True] + [False] * 5
    fresh = certify(model, selected, radius=2)
    shared = Evaluator(model)
    certify(shared, selected, radius=1)
    before = shared.n_calls
    later = certify(shared, selected, radius=2)
    assert later.n_calls == fresh.n_calls
    assert shared.n_calls - before < later.n_calls


def test_nearly_all_bundled_sentences_hold_fast_as_the_quick_start_says() -> None:
    vader = models.load("bundled:vader")
    rates = []
    for text in data.load("bundled:sentences").inputs:
        model = vader.bind(text)
        rates.append(certify(model, top(attribute(model, "occlusion"), 2), radius=3, rng=0).rate)
    assert sum(rate == 1 for rate in rates) >= 0.9 * len(rates)


def test_tables_of_rates_claim_no_more_than_their_intervals() -> None:
    model = lookup_table([mask % 7 > 0 for mask in range(2**12)], n_features=12)
    curve = certify_radii(model, [True] + [False] * 11, radii=range(2, 9), rng=0)
    sampled = [one for one in curve if not one.exact]
    shown = re.findall(r"\[(0\.\d+), ([01]\.\d+)\]", str(curve))
    assert len(shown) == len(curve)
    assert len(sampled) > 3
    told = dict(zip(curve.radii, shown, strict=True))
    for one in sampled:
        low, high = map(float, told[one.radius])
        assert low <= one.interval.low < low + 0.0011
        assert high - 0.0011 < one.interval.high <= high
