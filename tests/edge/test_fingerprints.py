"""What identifies a model: equal objects have equal fingerprints, and what cannot be told has none."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import holdfast as hf
from holdfast.fingerprints import digest_object
from holdfast.fingerprints import fingerprint as hash_parts

DATA, LABELS = load_breast_cancer(return_X_y=True)

ESTIMATORS = {
    "forest": lambda: RandomForestClassifier(n_estimators=5, random_state=0),
    "boosted": lambda: GradientBoostingClassifier(n_estimators=5, random_state=0),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
}


def fingerprint(classifier: Any) -> str | None:
    return hf.mask_tabular(classifier, DATA[0], background=DATA).provenance.model


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_an_estimator_is_identified_by_what_it_learnt(make: Any) -> None:
    fitted, again, other = (make().fit(DATA[:n], LABELS[:n]) for n in (400, 400, 300))
    assert fingerprint(fitted) == fingerprint(copy.deepcopy(fitted)) == fingerprint(again)
    assert fingerprint(fitted) != fingerprint(other)
    assert fingerprint(fitted.predict_proba) != fingerprint(fitted.predict)


def test_a_model_that_is_fitted_again_is_another_one() -> None:
    model = LogisticRegression(max_iter=5000).fit(DATA[:400, :3], LABELS[:400])

    def now() -> str | None:
        return hf.mask_tabular(model, DATA[0, :3], background=DATA[:, :3]).provenance.model

    before = now()
    assert before == now()
    model.fit(DATA[:300, :3], LABELS[:300])
    assert before != now()


def test_named_parts_are_told_apart_in_any_order() -> None:
    assert hash_parts({"weights": b"1", "config": b"2"}) == hash_parts({"config": b"2", "weights": b"1"})
    assert hash_parts({"weights": b"12"}) != hash_parts({"weights": b"1", "2": b""})
    assert digest_object({"weights": np.arange(3)}) == digest_object({"weights": np.arange(3)})
    assert digest_object([lambda row: row]) is None


CODE = """
from tests.edge.test_fingerprints import DATA, ESTIMATORS, LABELS, fingerprint
print(*(fingerprint(make().fit(DATA, LABELS)) for make in ESTIMATORS.values()))
"""


def test_fingerprints_are_the_same_in_another_process() -> None:
    told = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert told.split() == [fingerprint(make().fit(DATA, LABELS)) for make in ESTIMATORS.values()]


def test_a_function_is_not_identified() -> None:
    assert fingerprint(lambda rows: rows.sum(axis=1) > 0) is None


def test_a_module_is_identified_by_its_weights_and_layers() -> None:
    torch = pytest.importorskip("torch")
    image = np.zeros((8, 8, 3), dtype=np.float32)

    def make(seed: int, *more: Any) -> Any:
        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2), *more).eval()

    def now(module: Any) -> str | None:
        return hf.mask_image(module, image, groups=(2, 2)).provenance.model

    module = make(0)
    before = now(module)
    assert before == now(make(0))
    assert len({before, now(make(1)), now(make(0, torch.nn.ReLU()))}) == 3
    with torch.no_grad():
        module[1].weight += 1
    assert now(module) != before


class Ring:
    """An object that holds itself."""

    def __init__(self, value: Any) -> None:
        self.value, self.own = value, self


def test_objects_are_taken_apart() -> None:
    def both(first: Any, second: Any) -> bool:
        return digest_object(first) == digest_object(second)

    assert both({"a": 1, "b": {2, 3}}, {"b": {3, 2}, "a": 1})
    assert both(Ring(np.arange(3)), Ring(np.arange(3)))
    assert both(bytearray(b"x"), b"x")
    assert both(np.array(["a", None], dtype=object), np.array(["a", None], dtype=object))
    assert both(ESTIMATORS["forest"]().fit, ESTIMATORS["forest"]().fit)
    assert both(range(3), range(3))
    assert not both(Ring(1), Ring(2))
    assert not both(1, True)
    assert not both([1], [1, 1])
    assert not both(np.arange(3), np.arange(3.0))
    assert digest_object(Ellipsis) is not None
    assert digest_object([lambda row: row]) is None


def test_what_identifies_a_table_of_answers_is_all_of_it() -> None:
    tables = [hf.lookup_table(values, n_features=1) for values in ([0, 1], [1, 0], ["a", "b"], [["x"], ["y"]])]
    assert len({table.provenance for table in tables}) == 4
    mixed = hf.lookup_table(np.array(["a", 1], dtype=object), n_features=1)
    assert mixed.provenance == hf.lookup_table(np.array(["a", 1], dtype=object), n_features=1).provenance
