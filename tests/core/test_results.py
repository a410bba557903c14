"""Certificates are values: frozen, comparable, JSON both ways, and their sentence says nothing false."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast import Certificate, HardCertificate, certify, certify_hard
from holdfast.certification.certificate import interval_around
from holdfast.errors import InvalidTypeError, InvalidValueError
from holdfast.plans import Design
from holdfast.words import exact_share
from tests.helpers.fakes import label_table, score_table

F = Fraction

SELECTED = np.arange(12) < 3
CONSTANT = hf.lookup_table(np.zeros(2**12, dtype=int), n_features=12)
SCORES = score_table(12, seed=1)
MORE_THAN_FIVE = hf.mask_function(lambda masks: masks.sum(axis=1) > 5, n_features=12)
ONLY_THE_FULL_INPUT = hf.mask_function(lambda masks: masks.all(axis=1), n_features=12)
SINGLE = hf.lookup_table(np.random.default_rng(0).normal(size=2**12), n_features=12)

ASKED: dict[str, Callable[[], Certificate | HardCertificate]] = {
    "sampled": lambda: certify(SCORES, SELECTED, radius=5, rng=1),
    "all agreed": lambda: certify(CONSTANT, SELECTED, radius=5, rng=1),
    "exact": lambda: certify(SCORES, SELECTED, radius=1, rng=1),
    "exactly one": lambda: certify(CONSTANT, SELECTED, radius=1, rng=1),
    "clamped": lambda: certify(SCORES, SELECTED, radius=99, rng=1),
    "clamped swaps": lambda: certify(SCORES, SELECTED, radius=99, neighborhood="swaps", rng=1),
    "one removal": lambda: certify(SCORES, SELECTED, radius=1, neighborhood="removals", rng=1),
    "one swap": lambda: certify(SCORES, SELECTED, radius=1, neighborhood="swaps", rng=1),
    "exactly four": lambda: certify(SCORES, SELECTED, radius=4, rate_kind="exactly", rng=1),
    "worst size": lambda: certify(SCORES, np.arange(12) < 1, radius=6, rate_kind="worst_size", rng=1),
    "words": lambda: certify(label_table(12, labels=("a cat", "a 'dog'", "ü")), SELECTED, radius=5, rng=1),
    "truth values": lambda: certify(label_table(12, labels=(True, False)), SELECTED, radius=5, rng=1),
    "top set": lambda: certify(SCORES, SELECTED, radius=5, agree="same_top_set(2)", rng=1),
    "within": lambda: certify(
        SINGLE, SELECTED, radius=5, agree=hf.agreement.within(0.25), rng=np.random.default_rng(7)
    ),
    "user's own": lambda: certify(SCORES, SELECTED, radius=5, agree=lambda outputs, _: outputs[:, 0] < 9, rng=1),
    "the paper's plan": lambda: certify(
        SCORES, SELECTED, radius=5, plan="hoeffding", tolerance=0.07, confidence=0.85, rng=1
    ),
    "hard sampled": lambda: certify_hard(CONSTANT, SELECTED, radius=5, rng=1),
    "hard refuted": lambda: certify_hard(SCORES, SELECTED, radius=5, rng=1),
    "hard refuted by the full input": lambda: certify_hard(ONLY_THE_FULL_INPUT, SELECTED, radius=9, rng=1),
    "hard proven": lambda: certify_hard(CONSTANT, SELECTED, radius=1, rng=1),
    "hard refuted by proof": lambda: certify_hard(SCORES, SELECTED, radius=1, rng=1),
    "hard refuted far away": lambda: certify_hard(MORE_THAN_FIVE, SELECTED, radius=9, max_enumerated=600, rng=1),
    "hard words": lambda: certify_hard(
        label_table(12, labels=("a", "b")), SELECTED, radius=2, neighborhood="swaps", rng=1
    ),
}
SOFT = [name for name in ASKED if not name.startswith("hard")]
HARD = [name for name in ASKED if name.startswith("hard")]


@cache
def made(name: str) -> Any:
    """The certificate of that name."""
    return ASKED[name]()


@pytest.fixture
def cert(request: pytest.FixtureRequest) -> Any:
    """One certificate, by its name."""
    return made(request.param)


each = pytest.mark.parametrize("cert", [*ASKED], indirect=True)
each_soft = pytest.mark.parametrize("cert", SOFT, indirect=True)


def test_the_examples_cover_what_they_are_named_for() -> None:
    assert {(made(name).exact, made(name).consistent) for name in SOFT} == {(a, b) for a in (0, 1) for b in (0, 1)}
    assert {(made(name).method, made(name).stable) for name in HARD} == {
        (method, stable) for method in ("sampling", "enumeration") for stable in (True, False)
    }
    assert made("worst size").rate_unbiased is None
    assert not made("worst size").exact
    assert made("hard refuted far away").radius == 2
    assert {type(made(name).prediction) for name in ASKED} == {int, str, bool, float}


# -- values -------------------------------------------------------------------------------------------


@each
def test_certificates_are_frozen(cert: Any) -> None:
    for field in dataclasses.fields(cert):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(cert, field.name, getattr(cert, field.name))
    for mask in (cert.selected, cert.counterexample):
        if mask is not None:
            assert mask.dtype == np.bool_
            with pytest.raises(ValueError, match="read-only"):
                mask[0] = False


@each
def test_equal_certificates_are_equal_and_hash_alike(cert: Any) -> None:
    for same in (dataclasses.replace(cert), copy.deepcopy(cert), pickle.loads(pickle.dumps(cert))):
        assert same == cert
        assert hash(same) == hash(cert)
    assert len({cert, copy.deepcopy(cert)}) == 1


def other_value(value: Any) -> Any:
    """A value of the same kind that differs."""
    if isinstance(value, np.ndarray):
        return ~value
    if isinstance(value, hf.Interval):
        return hf.Interval(value.low - 1, value.high)
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    return value + "?" if isinstance(value, str) else Design((4,), (2,)) if value is None else None


@each
def test_certificates_that_differ_in_anything_are_not_equal(cert: Any) -> None:
    for field in dataclasses.fields(cert):
        changed = dataclasses.replace(cert, **{field.name: other_value(getattr(cert, field.name))})
        assert changed != cert, field.name


def test_certificates_equal_nothing_else() -> None:
    soft, hard = made("sampled"), made("hard sampled")
    assert soft != hard
    assert soft != soft.to_json()
    assert soft != None  # noqa: E711 - the operator is what is tested
    assert len({made(name) for name in ASKED}) == len(ASKED)


def test_equal_certificates_hash_alike_even_if_true_equals_one() -> None:
    one, true = (dataclasses.replace(made("truth values"), prediction=label) for label in (1, True))
    assert one != true or hash(one) == hash(true)


# -- JSON ---------------------------------------------------------------------------------------------


@each
def test_json_gives_back_the_same_value(cert: Any) -> None:
    again = type(cert).from_json(cert.to_json())
    assert again == cert
    assert hash(again) == hash(cert)
    assert again.to_json() == cert.to_json()
    assert str(again) == str(cert)
    for field in dataclasses.fields(cert):
        assert type(getattr(again, field.name)) is type(getattr(cert, field.name)), field.name
    assert not again.selected.flags.writeable
    np.testing.assert_array_equal(again.selected, cert.selected)


@each
def test_json_is_plain_json_with_a_schema_and_a_version(cert: Any) -> None:
    def refuse(constant: str) -> Any:
        raise AssertionError(f"{constant} is not JSON")

    data = json.loads(cert.to_json(), parse_constant=refuse)
    assert data["schema"] == type(cert).schema
    assert isinstance(data["schema_version"], int)
    assert {field.name for field in dataclasses.fields(cert)} < data.keys()


@pytest.mark.parametrize("labels", [(b"x", b"y"), (2, 3), ("x", "y")], ids=str)
def test_every_label_a_model_may_return_survives_json(labels: tuple[Any, Any]) -> None:
    cert = certify(label_table(12, labels=labels), SELECTED, radius=5, rng=1)
    assert Certificate.from_json(cert.to_json()) == cert


def edited(change: Callable[[dict[str, Any]], Any]) -> Callable[[str], str]:
    def edit(text: str) -> str:
        data = json.loads(text)
        change(data)
        return json.dumps(data)

    return edit


def without(name: str) -> Callable[[str], str]:
    return edited(lambda data: data.pop(name))


def having(**changed: Any) -> Callable[[str], str]:
    return edited(lambda data: data.update(changed))


FOREIGN: dict[str, Callable[[str], Any]] = {
    "nothing": lambda text: "",
    "cut": lambda text: text[: len(text) // 2],
    "not text": lambda text: None,
    "a number": lambda text: "3",
    "a list": lambda text: f"[{text}]",
    "another schema": having(schema="holdfast.hard_certificate"),
    "an unknown schema": having(schema="somebody.else"),
    "no schema": without("schema"),
    "an older version": having(schema_version=0),
    "a newer version": having(schema_version=999),
    "a version in words": having(schema_version="1"),
    "no version": without("schema_version"),
    "a missing field": without("n_agreed"),
    "an unknown field": having(n_votes=3),
}
GARBLED: dict[str, Callable[[str], Any]] = {
    "a mask of no length": having(selected={"n_features": -1, "shown": []}),
    "a mask with a feature too many": having(selected={"n_features": 3, "shown": [7]}),
    "a mask with half a feature": having(selected={"n_features": 3, "shown": [0.5]}),
    "a mask that is a number": having(selected=7),
    "a mask that is missing": having(selected=None),
    "a design that does not stop": having(design={"looks": [10], "limits": [1]}),
    "a design without looks": having(design={"looks": [], "limits": []}),
    "a design in words": having(design={"looks": "ab", "limits": "cd"}),
    "a rate in words": having(rate="high"),
    "a rate that is not the counts'": having(rate=0.123),
    "more agreed than evaluated": having(n_agreed=10**6),
    "nothing evaluated": having(n_evaluated=0),
    "a confidence above one": having(confidence=1.5),
    "an unknown neighbourhood": having(neighborhood="nearby"),
    "an unknown kind of rate": having(rate_kind="average"),
    "a number that is none": having(tolerance=float("nan")),
}


@pytest.mark.parametrize("spoil", FOREIGN.values(), ids=FOREIGN.keys())
def test_json_that_is_foreign_older_newer_or_incomplete_is_refused_with_a_reason(spoil: Callable[[str], Any]) -> None:
    with pytest.raises(InvalidValueError, match=r"^`text` "):
        Certificate.from_json(spoil(made("sampled").to_json()))


@pytest.mark.parametrize("spoil", GARBLED.values(), ids=GARBLED.keys())
def test_garbled_json_is_refused_with_a_reason(spoil: Callable[[str], Any]) -> None:
    with pytest.raises(InvalidValueError, match=r"^`text` "):
        Certificate.from_json(spoil(made("sampled").to_json()))


def test_a_certificate_of_one_kind_is_not_read_as_the_other() -> None:
    with pytest.raises(InvalidValueError, match=r"schema 'holdfast\.certificate'"):
        Certificate.from_json(made("hard sampled").to_json())
    with pytest.raises(InvalidValueError, match=r"schema 'holdfast\.hard_certificate'"):
        HardCertificate.from_json(made("sampled").to_json())


# -- holds --------------------------------------------------------------------------------------------


def with_counts(n_agreed: int, n_evaluated: int, tolerance: float) -> Certificate:
    """A sampled certificate with these counts, made as ``certify`` makes it."""
    return dataclasses.replace(
        made("sampled"),
        rate=n_agreed / n_evaluated,
        n_agreed=n_agreed,
        n_evaluated=n_evaluated,
        tolerance=tolerance,
        interval=interval_around(n_agreed, n_evaluated, F(repr(tolerance))),
    )


@pytest.mark.parametrize(
    ("n_agreed", "n_evaluated", "tolerance", "rate", "answer"),
    [
        (24, 24, 0.1, 0.9, True),
        (24, 24, 0.1, 0.9000000000000001, False),
        (19, 20, 0.05, 0.9, True),
        (95, 100, 0.05, 0.9, True),
        (3, 10, 0.1, 0.2, True),
        (7, 10, 0.1, 0.6, True),
        (8, 10, 0.1, 0.7, True),
        (29, 100, 0.02, 0.27, True),
        (1, 10, 0.1, 0.0001, False),
        (30, 30, 0.05, 0.95, True),
        (30, 30, 0.05, 0.951, False),
    ],
)
def test_holds_compares_decimals_exactly(
    n_agreed: int, n_evaluated: int, tolerance: float, rate: float, answer: bool
) -> None:
    assert with_counts(n_agreed, n_evaluated, tolerance).holds(rate) is answer


@pytest.mark.parametrize("tolerance", [0.02, 0.05, 0.1, 0.2])
def test_holds_is_true_of_what_was_shown_and_of_no_decimal_more(tolerance: float) -> None:
    for n in (7, 20, 30, 39, 70):
        for k in range(n + 1):
            cert, shown = with_counts(k, n, tolerance), F(k, n) - F(repr(tolerance))
            for digits in (2, 3, 12):
                for asked in (round(float(shown), digits) + step for step in (0.0, 1e-12, -1e-12)):
                    if 0 < asked < 1:
                        assert cert.holds(asked) == (shown >= F(repr(asked))), (k, n, asked)


@pytest.mark.parametrize("tolerance", [0.02, 0.05, 0.1, 0.2, 0.07])
def test_the_interval_is_the_rate_plus_and_minus_the_tolerance_to_the_last_digit(tolerance: float) -> None:
    eps = F(repr(tolerance))
    for n in (7, 20, 30, 39, 70):
        for k in range(n + 1):
            low, high = with_counts(k, n, tolerance).interval
            assert low == float(max(F(k, n) - eps, F(0)))
            assert high == float(min(F(k, n) + eps, F(1)))


def test_an_exact_certificate_holds_at_its_own_rate() -> None:
    exact = made("exact")
    assert 0 < exact.rate < 1
    assert exact.holds(F(exact.n_agreed, exact.n_evaluated))  # type: ignore[arg-type]
    assert not exact.holds(F(exact.n_agreed, exact.n_evaluated) + F(1, 10**9))  # type: ignore[arg-type]
    assert made("exactly one").holds(1)
    assert made("exactly one").holds(1.0)
    assert all(made(name).holds(made(name).rate) for name in SOFT if made(name).exact)


def test_a_sampled_certificate_never_holds_at_one() -> None:
    assert made("all agreed").rate == 1.0
    assert not made("all agreed").holds(1)
    assert made("all agreed").holds(0.9)


@pytest.mark.parametrize(
    ("rate", "error"),
    [
        (1.5, InvalidValueError),
        (-0.1, InvalidValueError),
        (float("nan"), InvalidValueError),
        ("0.9", InvalidTypeError),
        (None, InvalidTypeError),
        (True, InvalidTypeError),
    ],
)
def test_holds_refuses_what_is_no_rate(rate: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`rate` must be"):
        made("exactly one").holds(rate)


# -- the sentence -------------------------------------------------------------------------------------

PERCENT = re.compile(r"in ([\d.]+)–([\d.]+)% of cases")
CONFIDENCE = re.compile(r"([\d.]*\d)% confidence")


@each
def test_a_certificate_is_one_sentence(cert: Any) -> None:
    text = str(cert)
    assert text[0].isupper()
    assert text.endswith(".")
    assert "\n" not in text
    assert not re.search(r"[.!?] ", text)
    assert "  " not in text
    assert "None" not in text
    assert len(text.split()) <= 25
    assert "does not say that the explanation or the prediction is right" in cert.explain()


@each
def test_the_sentence_repeats_the_prediction_and_the_calls(cert: Any) -> None:
    number = isinstance(cert.prediction, float)
    assert (f" {cert.prediction:.6g} " if number else repr(cert.prediction)) in str(cert)
    assert f"It took {cert.n_calls} model calls" in cert.explain()


@each
def test_only_an_inconsistent_explanation_is_called_possibly_wrong(cert: Any) -> None:
    assert ("the full input" in str(cert)) == (not cert.consistent)
    assert ("the full input is predicted differently" in cert.explain()) == (not cert.consistent)


@each_soft
def test_the_sentence_of_a_sampled_certificate_claims_no_more_than_was_shown(cert: Certificate) -> None:
    text = str(cert)
    if cert.exact:
        assert "onfidence" not in text
        assert f"Stable in {exact_share(cert.rate)}" in text
        assert f"{cert.n_agreed} of {cert.n_evaluated} masks" in text or not cert.consistent
        assert f"Every mask was evaluated, and {cert.n_agreed} of {cert.n_evaluated} keep it" in cert.explain()
        assert "proof" not in text + cert.explain()
        return
    low, high = (F(found) / 100 for found in PERCENT.search(text).groups())  # type: ignore[union-attr]
    rate, slack = F(cert.n_agreed, cert.n_evaluated), F(repr(cert.tolerance))
    assert low <= max(rate - slack, F(0)) <= low + F(2, 1000)
    assert high - F(2, 1000) <= min(rate + slack, F(1)) <= high
    assert f"{cert.n_agreed} of {cert.n_evaluated} random masks kept it" in cert.explain()
    assert "about random masks" in cert.explain()
    assert "no proof" in cert.explain()


def test_percentages_are_rounded_so_that_the_claim_stays_true() -> None:
    for k in range(71):
        cert = with_counts(k, 70, 0.1)
        low, high = (F(found) / 100 for found in PERCENT.search(str(cert)).groups())  # type: ignore[union-attr]
        assert low <= max(F(k, 70) - F(1, 10), F(0))
        assert high >= min(F(k, 70) + F(1, 10), F(1))


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.999, 0.9999996, 0.99999999])
def test_the_stated_confidence_is_not_more_than_was_asked_for(confidence: float) -> None:
    cert = certify(CONSTANT, SELECTED, radius=9, tolerance=0.2, confidence=confidence, plan="hoeffding", rng=0)
    hard = certify_hard(CONSTANT, SELECTED, radius=9, confidence=confidence, rng=0)
    for text in (str(cert), str(hard)):
        stated = CONFIDENCE.search(text)
        assert stated is not None
        assert F(stated[1]) / 100 <= F(repr(confidence)) < 1


@pytest.mark.parametrize("tolerance", [0.1, 0.05, 0.1234564, 0.30000001])
def test_the_stated_probability_of_a_change_is_not_less_than_was_shown(tolerance: float) -> None:
    hard = certify_hard(CONSTANT, SELECTED, radius=9, tolerance=tolerance, rng=0)
    stated = re.search(r"in at most ([\d.]+)% of cases", str(hard))
    assert stated is not None
    assert F(stated[1]) / 100 >= F(repr(tolerance))


@pytest.mark.parametrize("agree", ["same_top_set(2)", "within(0.5)"])
def test_an_agreement_other_than_the_same_prediction_is_named(agree: str) -> None:
    # The leader flips on every other mask, the two leaders and their scores hardly change.
    scores = np.tile([3.0, 2.9, 0.0], (2**12, 1))
    scores[1::2, :2] = scores[1::2, 1::-1]
    model, selected = hf.lookup_table(scores, n_features=12), np.arange(12) > 5
    assert certify(model, selected, radius=6, rng=0).rate < 1
    for cert in (
        certify(model, selected, radius=6, agree=agree, rng=0),
        certify_hard(model, selected, radius=6, agree=agree, rng=0),
    ):
        assert cert.counterexample is None
        assert agree in str(cert), "says that the prediction is kept, but it is not"


@pytest.mark.parametrize("name", ["clamped", "clamped swaps"])
def test_a_clamped_radius_is_told_and_told_truly(name: str) -> None:
    cert = made(name)
    assert f"Radius 99 was clamped to {cert.effective_radius}, the largest there is." in cert.explain()
    unclamped = [made(other) for other in SOFT if made(other).radius == made(other).effective_radius]
    assert len(unclamped) > 5
    assert all("clamped" not in other.explain() for other in unclamped)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sampled", "revealing up to 5 more features kept"),
        ("exact", "revealing up to 1 more feature keeps"),
        ("one removal", "hiding up to 1 of the selected features keeps"),
        ("one swap", "swapping up to 1 selected for unselected features keeps"),
        ("exactly four", "revealing exactly 4 more features kept"),
    ],
)
def test_the_sentence_says_what_is_changed(name: str, words: str) -> None:
    assert words in str(made(name))


def test_a_worst_size_is_told_in_correct_english() -> None:
    assert "of more features" not in str(made("worst size"))


def test_hard_sentences_say_what_was_shown_and_what_was_not() -> None:
    sampled = str(made("hard sampled"))
    assert sampled.startswith(
        "Revealing up to 5 more features changes the prediction 0 in at most 10% of cases (90% conf"
    )
    assert "It is no proof" in made("hard sampled").explain()
    proven = str(made("hard proven"))
    assert proven.startswith("Proven: revealing up to 1 more feature never changes the prediction 0")
    assert "probability" not in proven
    assert "onfidence" not in proven
    for name in ("refuted", "refuted by proof", "refuted far away", "refuted by the full input"):
        hard = made(f"hard {name}")
        assert hard.counterexample is not None
        n_changed = int((hard.counterexample != hard.selected).sum())
        assert str(hard).startswith("Not stable: ")
        assert f"can change {hard.prediction!r}" in str(hard).replace("the prediction ", "")
        assert f"as a mask with {n_changed} changed feature" in str(hard) or not hard.consistent
        assert "onfidence" not in str(hard)
    assert "within radius 2 does" in made("hard refuted far away").explain()
    assert "within" not in str(made("hard refuted"))


# -- types --------------------------------------------------------------------------------------------

USER_CODE = """
import numpy as np
import holdfast as hf

model = hf.mask_function(lambda masks: masks.sum(axis=1) > 2, n_features=6)
selected = np.arange(6) < 3
cert: hf.Certificate = hf.certify(model, selected, radius=2, tolerance=0.1, agree=hf.agreement.same_top_class, rng=0)
hard: hf.HardCertificate = hf.certify_hard(model, selected, radius=2, rng=np.random.default_rng(0))
low, high = cert.interval
answers: list[bool] = [cert.holds(0.9), hard.stable, low <= cert.rate <= high]
again: hf.Certificate = hf.Certificate.from_json(cert.to_json())
rates: list[float] = [cert.rate, cert.rate_unbiased or 0.0]
counts: int = cert.n_agreed + cert.n_evaluated + cert.n_calls + hard.radius
mask: hf.Mask | None = cert.counterexample
planned: hf.plans.PlannedSamples = hf.plan_samples(selected=selected, radius=2)
shared: hf.MaskedModel = hf.Evaluator(hf.lookup_table([0, 1, 1, 0], n_features=2))
print(answers, again == cert, rates, counts, mask, planned, hf.bounds.clopper_pearson(3, 4).low, shared)
"""


@pytest.mark.slow
def test_user_code_passes_strict_type_checks_and_runs(tmp_path: Path) -> None:
    file = tmp_path / "user_code.py"
    file.write_text(USER_CODE, encoding="utf-8")
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_a_frame_without_pandas_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(hf.errors.MissingExtraError, match=r"pip install 'holdfast\[report\]'"):
        hf.certify_radii(CONSTANT, SELECTED, radii=[1, 2], rng=1).to_frame()


# -- what is said, and shown --------------------------------------------------------------------------


def counted(agreeing: int) -> Certificate:
    """One feature selected of ten, the full input predicted differently: this many of nine additions agree."""
    model = hf.mask_function(
        lambda masks: (masks.sum(axis=1) > 1) & ~((masks.sum(axis=1) == 2) & masks[:, 1 : agreeing + 1].any(axis=1)),
        n_features=10,
    )
    return certify(model, [0], radius=1, rate_kind="exactly", rng=0)


@pytest.mark.parametrize("agreeing", [0, 1, 5, 8, 9])
def test_an_explanation_is_called_stably_wrong_only_if_it_is_stable(agreeing: int) -> None:
    certificate = counted(agreeing)
    assert (certificate.rate, certificate.consistent) == (agreeing / 9, False)
    assert "the full input" in str(certificate)
    assert "the full input is predicted differently" in certificate.explain()
    assert ("may be stably wrong" in certificate.explain()) == (agreeing == 9)


def test_an_empty_selection_and_a_model_that_says_the_same_everywhere_are_named() -> None:
    constant = hf.lookup_table([7] * 16, n_features=4)
    said = certify(constant, np.zeros(4, dtype=bool), radius=2, rng=0)
    assert "with nothing selected" in str(said)
    assert "No feature is selected: the model says the same for every mask, the full" in said.explain()
    varied = hf.lookup_table([0] * 15 + [1], n_features=4)
    said = certify(varied, np.zeros(4, dtype=bool), radius=2, rng=0)
    assert "with nothing selected" in str(said)
    assert "No feature is selected." in said.explain()
    assert "selected" not in str(certify(constant, [1], radius=2, rng=0))
