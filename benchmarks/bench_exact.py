"""Exact counts and proven radii from the structure of models: how often and how fast, against draws and rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import holdfast as hf
from benchmarks.figures import Figure, best_seconds
from holdfast.agreement import same_top_class
from holdfast.exact.binding import countable_of

N_ROWS, RADIUS, SECONDS = 100, 6, 1.0
N_MASKS, N_TREE_ROWS = 150, 20

Data = tuple[Any, Any, Any, Any]
"""Training rows and labels, test rows and labels."""


def run() -> Iterator[Figure]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data_name, load in DATA.items():
            data = load()
            for family, make in FAMILIES.items():
                yield from _shares(data_name, family, make, data)
        yield from _xgboost_radii()
        yield from _tree_against_draws()
        yield from _masks_against_rows()


def _breast_cancer() -> Data:
    from sklearn.datasets import load_breast_cancer

    return _split(*load_breast_cancer(return_X_y=True))


def _wine() -> Data:
    from sklearn.datasets import load_wine

    return _split(*load_wine(return_X_y=True))


def _digits() -> Data:
    from sklearn.datasets import load_digits

    return _split(*load_digits(return_X_y=True))


def _credit() -> Data:
    """Twelve numbers and six categories of a made-up loan, and whether it is paid back."""
    import pandas as pd

    rng = np.random.default_rng(0)
    n = 3000
    numbers = rng.lognormal(size=(n, 12))
    frame = pd.DataFrame(numbers, columns=[f"number {i}" for i in range(12)])
    effect = np.log(numbers) @ rng.normal(size=12)
    for i, n_kinds in enumerate((2, 3, 4, 5, 8, 12)):
        kind = rng.integers(0, n_kinds, size=n)
        frame[f"category {i}"] = pd.Categorical.from_codes(kind, [f"kind {k}" for k in range(n_kinds)])
        effect = effect + rng.normal(size=n_kinds)[kind] * (1 + (numbers[:, i] > 1))
    return _split(frame, (effect + rng.logistic(size=n) > 0).astype(int))


DATA: dict[str, Callable[[], Data]] = {
    "breast cancer": _breast_cancer,
    "wine": _wine,
    "digits": _digits,
    "credit": _credit,
}


def _split(rows: Any, labels: Any) -> Data:
    order = np.random.default_rng(0).permutation(len(rows))
    test, train = order[: len(order) // 3], order[len(order) // 3 :]
    take = (lambda at: rows.iloc[at]) if hasattr(rows, "iloc") else (lambda at: rows[at])
    return take(train), labels[train], take(test), labels[test]


def _encoded(model: Any, data: Data, *, scale: bool = False) -> Any:
    """The model behind what its data need: one-hot categories, and numbers on one scale."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rows = data[0]
    if hasattr(rows, "iloc"):
        kinds, others = make_column_selector(dtype_include="category"), make_column_selector(dtype_exclude="category")
        code = OneHotEncoder(handle_unknown="ignore")
        return make_pipeline(ColumnTransformer([("n", StandardScaler(), others), ("c", code, kinds)]), model)
    return make_pipeline(StandardScaler(), model) if scale else model


def _tree(data: Data) -> Any:
    from sklearn.tree import DecisionTreeClassifier

    return _encoded(DecisionTreeClassifier(random_state=0), data)


def _forest(data: Data) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return _encoded(RandomForestClassifier(100, random_state=0), data)


def _extra_trees(data: Data) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return _encoded(ExtraTreesClassifier(100, random_state=0), data)


def _gradient(data: Data) -> Any:
    from sklearn.ensemble import GradientBoostingClassifier

    return _encoded(GradientBoostingClassifier(random_state=0), data)


def _histogram(data: Data) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0, categorical_features="from_dtype")


def _xgboost(data: Data) -> Any:
    import xgboost

    return _encoded(xgboost.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1), data)


def _lightgbm(data: Data) -> Any:
    import lightgbm

    return _encoded(lightgbm.LGBMClassifier(verbose=-1, n_jobs=1), data)


def _catboost(data: Data) -> Any:
    import catboost

    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return _encoded(catboost.CatBoostClassifier(iterations=100, random_seed=0, **quiet), data)


def _logistic(data: Data) -> Any:
    from sklearn.linear_model import LogisticRegression

    return _encoded(LogisticRegression(), data, scale=True)


def _linear_svm(data: Data) -> Any:
    from sklearn.svm import LinearSVC

    return _encoded(LinearSVC(), data, scale=True)


def _naive_bayes(data: Data) -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB() if not hasattr(data[0], "iloc") else None


FAMILIES: dict[str, Callable[[Data], Any]] = {
    "tree": _tree,
    "forest": _forest,
    "extra trees": _extra_trees,
    "gradient boosting": _gradient,
    "histogram boosting": _histogram,
    "XGBoost": _xgboost,
    "LightGBM": _lightgbm,
    "CatBoost": _catboost,
    "logistic": _logistic,
    "linear SVM": _linear_svm,
    "naive Bayes": _naive_bayes,
}


def _bound(model: Any, data: Data, at: int) -> tuple[Any, Any]:
    """One test row under masks, and an explanation: the quarter of its columns that matter most when hidden alone."""
    rows, row = data[0], data[2].iloc[[at]] if hasattr(data[2], "iloc") else data[2][at]
    masked = hf.mask_tabular(model, row, background=rows)
    n = masked.n_features
    scores = masked(np.concatenate([np.ones((1, n), dtype=bool), ~np.eye(n, dtype=bool)]))
    top = int(scores[0].argmax())
    return masked, hf.top((scores[0, top] - scores[1:, top]).tolist(), -(-n // 4))


def _shares(data_name: str, family: str, make: Callable[[Data], Any], data: Data) -> Iterator[Figure]:
    model = make(data)
    if model is None:
        return
    model.fit(data[0], data[1])
    n_rows = min(N_ROWS, len(data[2]))
    n_exact = n_proven = n_either = 0
    for at in range(n_rows):
        masked, selected = _bound(model, data, at)
        reference = masked(selected[None])[0]
        start = time.perf_counter()
        countable = countable_of(masked)
        if countable is None:
            continue
        counts = countable.count(selected, "additions", same_top_class, reference)
        exact = counts is not None and counts.is_exact_within(RADIUS) and time.perf_counter() - start <= SECONDS
        start = time.perf_counter()
        nearest = countable.nearest_change(selected, "additions", same_top_class, reference, seconds=SECONDS)
        proven = nearest.proven and time.perf_counter() - start <= SECONDS
        n_exact, n_proven, n_either = n_exact + exact, n_proven + proven, n_either + (exact or proven)
    for name, number in (("exact rate", n_exact), ("proven hard radius", n_proven), ("either", n_either)):
        yield Figure(f"{data_name}, {family}: {name} within {SECONDS:g} s", 100 * number / n_rows, "% of rows")


def _xgboost_radii() -> Iterator[Figure]:
    import xgboost

    data = _breast_cancer()
    model = xgboost.XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1).fit(data[0], data[1])
    seconds, brackets = [], []
    for at in range(N_ROWS):
        masked, selected = _bound(model, data, at)
        reference = masked(selected[None])[0]
        start = time.perf_counter()
        nearest = countable_of(masked).nearest_change(selected, "additions", same_top_class, reference, seconds=2.0)
        seconds.append(time.perf_counter() - start)
        if not nearest.proven or seconds[-1] > 2:
            brackets.append((nearest.cleared, nearest.distance))
    proven = 100 * (1 - len(brackets) / N_ROWS)
    yield Figure("XGBoost, 100 trees of depth 6, 30 columns: hard radius proven in 2 s", proven, "%", at_least=90)
    yield Figure("… seconds a row, median", float(np.median(seconds)), "s")
    yield Figure("… seconds a row, longest", max(seconds), "s")
    for cleared, distance in brackets:
        print(f"  bracket: none within {cleared}, one at {distance}")


def _tree_against_draws() -> Iterator[Figure]:
    """One rate of each of some rows: by draws, at the default tolerance and at a tenth of it, and exactly."""
    data = _breast_cancer()
    model = _tree(data).fit(data[0], data[1])
    exact = reading = drawn = finely_drawn = 0.0
    for at in range(N_TREE_ROWS):
        masked, selected = _bound(model, data, at)
        countable, reference = countable_of(masked), masked(selected[None])[0]
        plain = hf.mask_function(masked, n_features=masked.n_features)
        question = (selected, "additions", same_top_class, reference)
        exact += best_seconds(lambda c=countable, q=question: c.count(*q).rate(RADIUS), repeats=20)
        reading += best_seconds(lambda m=masked: countable_of(m), repeats=20)
        drawn += best_seconds(lambda m=plain, s=selected: hf.certify(m, s, radius=RADIUS, rng=0))
        finely_drawn += best_seconds(
            lambda m=plain, s=selected: hf.certify(m, s, radius=RADIUS, tolerance=0.01, plan="exact", rng=0), repeats=1
        )
    each = 1e3 / N_TREE_ROWS
    yield Figure("tree: exact rate at every radius", each * exact, "ms")
    yield Figure("tree: reading it, and checking it against the model", each * reading, "ms")
    yield Figure("tree: one certificate by draws, within 0.1", each * drawn, "ms")
    yield Figure("tree: one certificate by draws, within 0.01", each * finely_drawn, "ms")
    yield Figure("tree: draws within 0.1 over exact rate, in one run", drawn / exact, "×", at_least=100)
    yield Figure("… reading the tree included", drawn / (exact + reading), "×")
    yield Figure("tree: draws within 0.01 over exact rate, in one run", finely_drawn / exact, "×")


def _masks_against_rows() -> Iterator[Figure]:
    data = _breast_cancer()
    masks = np.random.default_rng(0).random((N_MASKS, 30)) < 0.5
    for family in (
        "forest",
        "extra trees",
        "gradient boosting",
        "histogram boosting",
        "XGBoost",
        "LightGBM",
        "CatBoost",
    ):
        model = FAMILIES[family](data).fit(data[0], data[1])
        masked, _ = _bound(model, data, 0)
        countable = countable_of(masked)
        theirs = masked(masks)
        assert np.allclose(countable(masks), theirs, atol=1e-6)
        built = np.where(masks, data[2][0], data[0].mean(axis=0))
        rows = best_seconds(lambda model=masked: model(masks), repeats=20)
        alone = best_seconds(lambda model=model, rows=built: model.predict_proba(rows), repeats=20)
        trees = best_seconds(lambda model=countable: model(masks), repeats=20)
        yield Figure(
            f"{family}: predict_proba on {N_MASKS} built rows over masks into trees", alone / trees, "×", at_least=5
        )
        yield Figure("… building the rows included", rows / trees, "×")
