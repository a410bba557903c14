"""What the page is told: the same as the library says when it is asked directly."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import holdfast as hf
from holdfast.attribution.methods import METHODS, lack_of
from holdfast.cli import main
from holdfast.explore.questions import N_VOTES, write_python
from holdfast.explore.requests import View
from holdfast.explore.workbench import Workbench, bundled_entries, loaded_entry
from tests.helpers.explore_support import CLASSES, N_FEATURES, Visitor, decide, fake_workbench, serving
from tests.helpers.waiting import PATIENCE

OWN = {"model": "test:quick", "input": "0", "method": "own", "selected": [0, 1]}
SELECTED = np.arange(N_FEATURES) < 2


def labels(masks: Any) -> Any:
    """A model that gives labels."""
    return np.where(masks[:, 0], "yes", "no")


def crowded(masks: Any) -> Any:
    """A model of a thousand classes."""
    scores = np.zeros((len(masks), 1000))
    scores[:, 700] = masks.sum(axis=1)
    return scores


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with serving(fake_workbench(quick=decide, labels=labels, crowded=crowded)) as one:
        yield one


@pytest.fixture(scope="module")
def bundled() -> Iterator[Visitor]:
    with serving(Workbench(bundled_entries())) as one:
        yield one


def model() -> hf.MaskedModel:
    return hf.mask_function(decide, n_features=N_FEATURES, classes=CLASSES)


# -- what there is ------------------------------------------------------------------------------------------------


def test_the_page_is_html_and_holds_no_token(visitor: Visitor) -> None:
    answer = httpx.get(visitor.url)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert visitor.url.split("token=")[1] not in answer.text


def test_the_workbench_lists_every_bundled_model_without_loading_one(bundled: Visitor) -> None:
    told = bundled.get("/api/workbench").json()
    assert {one["spec"] for one in told["models"]} == {f"bundled:{card.name}" for card in hf.models.available()}
    by_name = {one["name"]: one for one in told["models"]}
    gradients = {"name": "integrated_gradients", "label": "Integrated Gradients"}
    assert gradients in by_name["digits-vit"]["methods"]
    assert gradients not in by_name["vader"]["methods"]
    assert all(one["n_inputs"] > 5 and one["default_fill"] == one["fills"][0]["name"] for one in told["models"])
    assert told["defaults"]["model"] == told["models"][0]["spec"]


def test_bundled_models_are_offered_the_methods_that_they_can_do() -> None:
    for entry in bundled_entries():
        bound = entry.inputs.bind(entry.inputs.raw(0))
        able = [name for name, (_, need) in METHODS.items() if lack_of(bound, need) is None]
        assert list(entry.methods) == able, entry.name
        assert loaded_entry(entry.inputs, {}, bound).methods == entry.methods


def test_models_whose_data_cannot_be_read_are_listed_with_the_reason() -> None:
    hide = (
        "import sys; sys.modules['sklearn'] = None\n"
        "from holdfast.explore.workbench import bundled_entries\n"
        "for one in bundled_entries(): print(*(one.describe()[key] for key in ('name', 'n_inputs', 'note')))\n"
    )
    done = subprocess.run([sys.executable, "-c", hide], capture_output=True, text=True, timeout=PATIENCE, check=True)
    told = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert told["vader"].startswith("vader 200 VADER")
    assert told["digits-vit"].endswith("pip install 'holdfast[sklearn]'")


def test_inputs_are_listed_in_portions(bundled: Visitor) -> None:
    told = bundled.get("/api/inputs", **{"model": "bundled:vader", "from": "198", "count": "50"}).json()
    assert [one["id"] for one in told["inputs"]] == ["198", "199"]
    assert told["total"] == 200
    digits = bundled.get("/api/inputs", model="bundled:digits-vit", count="1").json()["inputs"][0]
    assert digits["short"].startswith("data:image/png;base64,")
    assert digits["label"] in "0123456789"
    rows = bundled.get("/api/inputs", model="bundled:cancer-forest", count="1").json()["inputs"][0]
    assert re.fullmatch(r"[\d.e+]+, [\d.e+]+, [\d.e+]+, …", rows["short"])
    assert bundled.get("/api/inputs", model="bundled:none").status_code == 400


# -- reveal and explain -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [[0, 1], [0, 1, 5], [0, 1, 5, 7], [], [1, 2, 3], list(range(N_FEATURES))])
def test_a_click_shows_what_the_model_says(visitor: Visitor, shown: list[int]) -> None:
    mask = np.isin(np.arange(N_FEATURES), shown)
    output, reference = (model()(one[None])[0] for one in (mask, SELECTED))
    told = visitor.reveal(OWN, shown)
    leader = int(output.argmax())
    assert (told["class"], told["prediction"]) == (leader, CLASSES[leader])
    assert [one["score"] for one in told["scores"]] == output.tolist()
    assert [one["class"] for one in told["scores"]] == list(CLASSES)
    assert sum(one["share"] for one in told["scores"]) == pytest.approx(1)
    assert told["agrees"] == (leader == reference.argmax())
    assert told["margin"] == output[reference.argmax()] - output[1 - reference.argmax()]
    assert (told["margin"] >= 0) == told["agrees"]
    assert (told["n_added"], told["n_hidden"]) == (len(set(shown) - {0, 1}), len({0, 1} - set(shown)))


def test_labels_have_no_scores_and_still_agree_or_not(visitor: Visitor) -> None:
    view = OWN | {"model": "test:labels"}
    told = visitor.reveal(view, [0])
    assert (told["prediction"], told["margin"], told["scores"], told["agrees"]) == ("yes", None, [], True)
    assert visitor.reveal(view, [1])["agrees"] is False
    assert visitor.ask("certify", view, radius=2)["rate"] == 1.0


def test_of_many_classes_the_leading_ones_are_told(visitor: Visitor) -> None:
    told = visitor.reveal(OWN | {"model": "test:crowded"}, [0, 1])
    assert told["class"] == 700
    assert len(told["scores"]) < 50
    assert any(one["class"] == "700" for one in told["scores"])


@pytest.mark.parametrize("method", ["lime", "shap", "occlusion", "random"])
def test_an_explanation_is_that_of_the_method(visitor: Visitor, method: str) -> None:
    view = {"model": "test:quick", "input": "0", "method": method, "fraction": 0.5, "seed": 7}
    told = visitor.ask("explain", view)
    direct = hf.attribute(model(), method, rng=7)
    assert told["scores"] == direct.scores.tolist()
    assert told["selected"] == np.flatnonzero(hf.top_fraction(direct, 0.5)).tolist()
    assert told["n_calls"] == direct.n_calls
    assert told["n_features"] == N_FEATURES
    assert told["max_radius"] == N_FEATURES - len(told["selected"])
    full = int(model()(np.ones((1, N_FEATURES), dtype=bool))[0].argmax())
    assert told["full_prediction"] == CLASSES[full]
    assert told["consistent"] == (told["prediction"] == told["full_prediction"])
    assert visitor.reveal(view, told["selected"]) == told["reference"]


def test_a_smoothed_view_is_about_the_smoothed_model(visitor: Visitor) -> None:
    view = OWN | {"keep_probability": 0.5, "seed": 3}
    smoothed, again = (hf.smooth(model(), 0.5, N_VOTES, rng=3) for _ in range(2))  # each counts its own calls
    mask = np.isin(np.arange(N_FEATURES), [0, 1, 5, 7])
    assert [one["score"] for one in visitor.reveal(view, [0, 1, 5, 7])["scores"]] == smoothed(mask[None])[0].tolist()
    told = visitor.ask("certify", view, radius=5)
    assert hf.Certificate.from_json(told["text"]) == hf.certify(again, SELECTED, radius=5, rng=3)


# -- certify, witness, curve --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"radius": 2}, {"radius": 5}, {"radius": 99, "tolerance": 0.05}])
def test_a_certificate_is_the_one_of_a_direct_call(visitor: Visitor, options: dict[str, Any]) -> None:
    told = visitor.ask("certify", OWN | {"seed": 11}, **options)
    direct = hf.certify(model(), SELECTED, **options, rng=11)
    assert hf.Certificate.from_json(told["text"]) == direct
    assert told["sentence"] == str(direct)
    assert [told["low"], told["high"]] == list(direct.interval)
    wanted = None if direct.counterexample is None else np.flatnonzero(direct.counterexample).tolist()
    assert told["counterexample"] == wanted


def test_a_witness_can_be_stepped_through_to_the_change(visitor: Visitor) -> None:
    told = visitor.ask("witness", OWN, max_radius=4)
    direct = hf.find_witness(model(), SELECTED, max_radius=4, rng=0)
    assert sorted(told["added"]) == list(direct.added) == [5, 7]
    assert (told["found"], told["proven"]) == (True, True)
    assert told["sentence"] == str(direct)
    assert [step["added"] for step in told["steps"]] == told["added"]
    assert [step["agrees"] for step in told["steps"]] == [True, False]
    assert told["prediction"] == told["steps"][-1]["prediction"] == "no"
    nothing = visitor.ask("witness", OWN, max_radius=1)
    assert (nothing["found"], nothing["added"], nothing["steps"], nothing["proven"]) == (False, [], [], True)


def test_a_curve_is_the_one_of_a_direct_call(visitor: Visitor) -> None:
    told = visitor.ask("curve", OWN, radii=[4, 1, 2])
    direct = hf.certify_radii(model(), SELECTED, radii=[1, 2, 4], simultaneous=True, rng=0)
    assert told["radii"] == [1, 2, 4]
    assert told["rates"] == [one.rate for one in direct]
    assert list(zip(told["low"], told["high"], strict=True)) == [tuple(one.interval) for one in direct]
    assert told["sentence"] == (
        "Stable in at least 80.6% of cases at the tested radii 1 to 4 (90% confidence): additions kept 'yes', but the "
        "full input differs."
    )
    assert told["explanation"] == direct.explain()
    assert 0.806 <= direct[4].interval.low == min(one.interval.low for one in direct) < 0.807
    assert visitor.ask("curve", OWN, radii=[1])["sentence"] == (
        "Stable in at least 100% of cases at radius 1 (exact): additions kept the prediction 'yes', but the full input "
        "is predicted differently."
    )


# -- bundled models -----------------------------------------------------------------------------------------------

KINDS = {
    "image": {"model": "bundled:digits-vit", "input": "3", "method": "occlusion", "fill": "mean"},
    "text": {"model": "bundled:vader", "input": "3", "method": "lime", "keep_probability": 0.5, "seed": 2},
    "table": {"model": "bundled:cancer-forest", "input": "5", "method": "random", "fill": "zero"},
}


def run_export(bundled: Visitor, view: dict[str, Any], tmp_path: Path, **question: Any) -> str:
    """What the exported script prints, in a process of its own."""
    code = bundled.post("/api/export/python", {"view": view} | question).json()["code"]
    script = tmp_path / "exported.py"
    script.write_text(code + "print(certificate.to_json())\n", encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundled_models_certificate_is_that_of_the_exported_script(
    bundled: Visitor, kind: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch") if kind == "image" else pytest.importorskip("sklearn")
    view = KINDS[kind]
    told = bundled.ask("certify", view, radius=4)
    sentence, text = run_export(bundled, view, tmp_path, radius=4).splitlines()
    assert told["sentence"].startswith(sentence)
    assert hf.Certificate.from_json(text) == hf.Certificate.from_json(told["text"])
    explained = bundled.ask("explain", view)
    assert explained["picture"]["kind"] == kind
    names = explained["feature_names"]
    assert names is None if kind == "image" else len(names) == explained["n_features"]


def test_features_chosen_by_hand_are_exported(bundled: Visitor, tmp_path: Path) -> None:
    view = {"model": "bundled:vader", "input": "1", "method": "own", "selected": [2, 0]}
    told = bundled.ask("certify", view, radius=3, confidence=0.95)
    assert run_export(bundled, view, tmp_path, radius=3, confidence=0.95).splitlines()[0] in told["sentence"]


def test_a_certificate_that_was_saved_can_be_verified(bundled: Visitor, tmp_path: Path) -> None:
    told = bundled.ask("certify", KINDS["text"] | {"keep_probability": 1.0}, radius=4)
    file = tmp_path / "certificate.json"
    file.write_text(told["text"], encoding="utf-8")
    options = ["--model", "bundled:vader", "--input", "bundled:sentences#3", "--features", "words"]
    assert main(["verify", str(file), *options]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_view_can_be_drawn(bundled: Visitor, kind: str) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("torch") if kind == "image" else pytest.importorskip("sklearn")
    drawn = [bundled.post("/api/export/png", {"view": KINDS[kind]} | more) for more in ({}, {"shown": [0, 1, 2]})]
    for answer in drawn:
        assert answer.headers["content-type"] == "image/png"
        assert answer.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert drawn[0].content != drawn[1].content


NASTY = ("'''", '"""', "\\", "\n", '\\\n"""', "\u2028", "\r\nimport os", "{x}", "\udc80")


@pytest.mark.parametrize("nasty", NASTY, ids=range(len(NASTY)))
def test_names_cannot_become_code_of_the_exported_script(nasty: str) -> None:
    spec, data = f"hf:a{nasty};print(1)#", f"images:{nasty}b"
    inputs = replace(bundled_entries()[0].inputs, model_name=spec, data_name=data, features=f"words{nasty}")
    entry = replace(bundled_entries()[0], inputs=inputs, options={"kind": nasty})
    code = write_python(View(spec, 3), entry, radius=5)
    tree = ast.parse(code)
    constants = [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    assert {spec, data, f"words{nasty}", nasty} <= set(constants)
    calls = [ast.unparse(one.func) for one in ast.walk(tree) if isinstance(one, ast.Call)]
    assert sorted(calls) == sorted(["hf.bind", "hf.attribute", "hf.top_fraction", "hf.certify", "print"])
    assert [type(one).__name__ for one in tree.body[:2]] == ["Expr", "Import"]
