"""A model that counts its own masks: verbs take its word where it is shown to be faithful, and draw where it is not."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.errors import HoldfastError
from holdfast.exact.countable import Counts, NearestChange
from tests.helpers.oracles import neighbors

N, SELECTED = 8, np.arange(8) < 2


def is_kept(mask: Any) -> bool:
    """Features 5 and 7 together change the prediction."""
    return not (mask[5] and mask[7])


@dataclass
class CountedTable:
    """Labels of masks, and counts of them by enumeration; ``lie`` is added to the counts of every size but 0."""

    lie: int = 0
    nearest: NearestChange | None = None
    n_features: int = N
    asked: list[Any] = field(default_factory=list)

    def __call__(self, masks: Any) -> Any:
        return np.array([is_kept(mask) for mask in masks])

    def reasons_against(self, agree: Any, reference: Any) -> str | None:
        return None if agree.name == "same_top_class" else "it knows labels alone"

    def count(self, selected: Any, neighborhood: str, agree: Any, reference: Any) -> Counts | None:
        masks = list(neighbors(selected, N, neighborhood))
        distances = [int((mask != selected).sum()) for mask in masks]
        sizes = tuple(distances.count(k) for k in range(max(distances) + 1))
        pairs = list(zip(masks, distances, strict=True))
        kept = [sum(is_kept(mask) == reference for mask, at in pairs if at == k) for k in range(len(sizes))]
        agreed = tuple(max(0, n - self.lie * (k > 0)) for k, n in enumerate(kept))
        return Counts(agreed, (0,) * len(sizes), sizes, "paths of a tree")

    def nearest_change(self, selected: Any, *question: Any, **limits: Any) -> NearestChange:
        self.asked.append(limits)
        changed = selected | np.isin(np.arange(len(selected)), (5, 7))
        return self.nearest or NearestChange(1, 2, changed, N - 2, "branch and bound")


class Unfaithful(CountedTable):
    """Names a module that reads it wrongly: what is read answers otherwise than the model."""

    structure_reader = __name__


def read_structure(model: Any) -> CountedTable:
    return CountedTable(lie=1)


def answers_alike(model: Any, countable: Any, masks: Any) -> bool:
    return False


def test_a_model_that_counts_is_not_drawn_from() -> None:
    certificate = hf.certify(CountedTable(), SELECTED, radius=6, tolerance=0.4, rng=0)
    masks = list(neighbors(SELECTED, 6))
    assert (certificate.exact, certificate.proof) == (True, "paths of a tree")
    assert Fraction(certificate.n_agreed, certificate.n_evaluated) == Fraction(sum(map(is_kept, masks)), len(masks))
    assert hf.recheck(CountedTable(), certificate).confirmed
    curve = hf.mean_curve([lambda: (CountedTable(), SELECTED)] * 3, radii=[1, 6], half_width=0.1, rng=0)
    assert (curve.n_counted, curve.n_draws) == (3, 0)


def test_a_structure_that_answers_otherwise_than_the_model_is_not_believed() -> None:
    model = Unfaithful()
    certificate = hf.certify(model, SELECTED, radius=3, rng=0)
    assert certificate.proof is None
    assert hf.certify_hard(model, SELECTED, radius=3, rng=0).method in ("enumeration", "sampling")
    assert hf.find_witness(model, SELECTED, rng=0).proof is None
    curve = hf.mean_curve([lambda: (model, SELECTED)] * 3, radii=[3], half_width=0.3, rng=0)
    assert curve.n_counted == 0


def test_another_agreement_is_judged_by_the_model() -> None:
    def same(outputs: Any, reference: Any) -> Any:
        return outputs == reference

    assert hf.certify(CountedTable(), SELECTED, radius=2, agree=same, rng=0).proof is None
    assert hf.find_witness(CountedTable(), SELECTED, agree=same, rng=0).proof is None


def test_a_bracket_and_the_usual_search_are_taken_together() -> None:
    far = SELECTED | (np.arange(N) >= 5)
    open_bracket = NearestChange(1, 3, far, N - 2, "branch and bound")
    witness = hf.find_witness(CountedTable(nearest=open_bracket), SELECTED, rng=0)
    assert (witness.added, witness.proven) == ((5, 7), True)


def test_a_change_that_only_the_bracket_knows_is_reduced_to_what_it_needs() -> None:
    """Four features of 38 together: two levels are enumerated, and nothing may be spent on searching further."""

    class Wide(CountedTable):
        n_features = 40

        def __call__(self, masks: Any) -> Any:
            return ~masks[:, 30:34].all(axis=1)

    places = np.arange(40)
    known = NearestChange(3, 6, (places < 2) | ((places >= 29) & (places < 35)), 38, "branch and bound")
    witness = hf.find_witness(Wide(nearest=known, n_features=40), places < 2, max_calls=0, rng=0)
    assert witness.added == (30, 31, 32, 33)
    assert (witness.cleared_radius, witness.proven, witness.proof) == (3, True, "branch and bound")


def test_a_proof_that_does_not_fit_its_counts_is_refused() -> None:
    radius = hf.certified_radius(CountedTable(), SELECTED, min_rate=0.5, radii=[2], rng=0)
    assert radius.trail[0].proof == "paths of a tree"
    plain = json.loads(radius.to_json())
    plain["trail"][0]["exact"] = False
    with pytest.raises(HoldfastError):
        hf.RadiusCertificate.from_json(json.dumps(plain))


def drawn_from(model: Any, **options: Any) -> hf.Certificate:
    """A certificate by draws, although the model counts its masks."""
    certificate = hf.certify(hf.mask_function(model, n_features=N), SELECTED, radius=6, tolerance=0.2, **options)
    assert not certificate.exact
    return certificate


def test_what_was_drawn_is_confirmed_by_draws_and_the_count_is_told_beside_it() -> None:
    check = hf.recheck(CountedTable(), drawn_from(CountedTable(), rng=1))
    assert check.confirmed
    assert "Counted from inside the model, 48 of 64 masks (75%) keep the prediction: inside" in check.explain()
    lucky = (drawn_from(CountedTable(), rng=key, confidence=0.5) for key in range(200))
    check = hf.recheck(CountedTable(), next(certificate for certificate in lucky if certificate.interval.low > 0.75))
    assert check.confirmed
    assert "outside the stated interval" in check.explain()
    hidden = hf.mask_function(CountedTable(), n_features=N)
    hard = hf.certify_hard(hidden, SELECTED, radius=1, max_enumerated=0, tolerance=0.3, rng=0)
    assert hard.method == "sampling"
    assert hf.recheck(CountedTable(), hard).confirmed


def test_a_masked_model_whose_structure_is_hidden_keeps_what_it_knows_of_its_input() -> None:
    table = hf.lookup_table([[0.1, 0.9]] * 4, n_features=2, classes=["no", "yes"])
    hidden = hf.mask_function(table, n_features=2)
    assert (hidden.provenance, hidden.classes) == (table.provenance, ("no", "yes"))
    assert hf.mask_function(table, n_features=2, classes=["a", "b"]).classes == ("a", "b")


def test_stored_results_that_contradict_themselves_are_refused() -> None:
    certificate = hf.certify(CountedTable(), SELECTED, radius=6, rng=0)
    assert certificate.counterexample is not None
    size = certificate.n_evaluated
    plain = json.loads(certificate.to_json()) | {"n_agreed": size, "rate": 1.0, "rate_unbiased": 1.0}
    plain["interval"] = {"low": 1.0, "high": 1.0}
    with pytest.raises(HoldfastError, match="counterexample"):
        hf.Certificate.from_json(json.dumps(plain))
    with pytest.raises(HoldfastError, match="n_calls"):
        hf.Certificate.from_json(json.dumps(json.loads(certificate.to_json()) | {"n_calls": -1}))
    hard = json.loads(hf.certify_hard(CountedTable(), SELECTED, radius=6, rng=0).to_json())
    hard |= {"stable": True, "counterexample": None, "radius": 6, "n_agreed": size, "n_evaluated": size}
    assert hard["consistent"] is False
    with pytest.raises(HoldfastError, match="consistent"):
        hf.HardCertificate.from_json(json.dumps(hard))


@dataclass
class SearchedTable(CountedTable):
    """Knows no counts, but up to where nothing changes the prediction: distance 1."""

    def count(self, selected: Any, neighborhood: str, agree: Any, reference: Any) -> Counts | None:
        return None

    def cleared(self, *question: Any, radius: int, max_nodes: int) -> tuple[int, str]:
        self.asked.append(radius)
        return min(1, radius), "branch and bound"


def test_a_search_that_finds_no_change_makes_the_rate_exactly_one() -> None:
    model = SearchedTable()
    certificate = hf.certify(model, SELECTED, radius=1, rng=0)
    assert (certificate.rate, certificate.exact, certificate.proof) == (1.0, True, "branch and bound")
    assert "(proven)" in str(certificate)
    assert "counted from inside the model, by branch and bound" in certificate.explain()
    assert hf.Certificate.from_json(certificate.to_json()) == certificate
    model.asked.clear()
    curve = hf.certify_radii(model, SELECTED, radii=[0, 1, 3, 5], tolerance=0.3, rng=0)
    assert [cert.proof for cert in curve] == ["branch and bound"] * 2 + [None] * 2
    assert model.asked == [0, 1, 3], "a search that stopped is not made again"
    same = hf.certify(model, SELECTED, radius=1, agree=lambda outputs, reference: outputs == reference, rng=0)
    assert same.proof is None
    assert hf.certify(model, SELECTED, radius=1, reference=False, rng=0).proof is None, "it is lost already"


def test_sentences_of_exact_results_speak_of_no_chance() -> None:
    model = CountedTable()
    for plan in ("exact", "sequential"):
        comparison = hf.compare(model, {"one": SELECTED, "same": SELECTED.copy()}, [3], plan=plan, rng=0)
        assert "r=3: one = same" in str(comparison)
        assert "(proven)" in str(comparison)
        assert "All rates are exact: every mask was counted from inside the model" in comparison.explain()
        assert "confidence" not in str(comparison)
    listed = hf.mask_function(CountedTable(), n_features=N)
    comparison = hf.compare(listed, {"one": SELECTED, "other": ~SELECTED}, [1], rng=0)
    assert "(exact: all masks counted)" in str(comparison)
    assert "All rates are exact: every mask was evaluated" in comparison.explain()
    radius = hf.certified_radius(model, SELECTED, min_rate=0.5, radii=[2], rng=0)
    assert str(radius).startswith("Stable in at least 50% of cases (proven): ")
    assert "random masks" not in radius.explain()
    stable = hf.stabilize(model, np.arange(N, 0, -1.0), min_rate=0.5, radius=2, sizes=[2], rng=0)
    assert "random masks" not in stable.explain()
    assert "agreed/masks" in str(hf.certify_radii(model, SELECTED, radii=[1, 2], rng=0))
    near = NearestChange(0, 1, SELECTED | (np.arange(N) == 5), N - 2, "branch and bound")
    hard = hf.certify_hard(Loses5(nearest=near), SELECTED, radius=3, rng=0)
    assert "within radius 0" not in str(hard)
    assert "proven from inside the model" in hard.explain()


class Loses5(CountedTable):
    """Feature 5 alone changes the prediction."""

    def __call__(self, masks: Any) -> Any:
        return ~masks[:, 5]
