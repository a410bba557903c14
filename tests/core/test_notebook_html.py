"""What notebooks show of results: well formed, small, escaped, without scripts, and with the numbers of the result."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import holdfast as hf
from holdfast.report.notebook import _percent

HOSTILE = "<script>alert('x')</script> & \"quoted\" 🌊 שלום " + "x" * 10_000


def _model() -> Any:
    return hf.mask_function(lambda masks: (masks[:, :6].sum(axis=1) < 4).astype(int), n_features=20)


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    model, selected = _model(), np.arange(20) < 3
    other = np.arange(20) >= 17
    names = tuple(f"feature {i}" for i in range(20))
    return {
        "certificate": hf.certify(model, selected, radius=4, rng=0),
        "curve": hf.certify_radii(model, selected, radii=range(1, 17), rng=0),
        "comparison": hf.compare(model, {HOSTILE: selected, "other": other}, radii=[1, 3], rng=0),
        "mean": hf.mean_curve([lambda: (model, selected), lambda: (model, other)], radii=[1, 3], half_width=0.2, rng=0),
        "attribution": hf.Attribution(
            np.linspace(-1, 1, 20), target=HOSTILE, method=HOSTILE, feature_names=(*names[:-1], HOSTILE)
        ),
    }


KINDS = ("certificate", "curve", "comparison", "mean", "attribution")


@pytest.mark.parametrize("kind", KINDS)
def test_notebook_pieces_are_well_formed_and_hold_no_script(results: dict[str, Any], kind: str) -> None:
    piece = results[kind]._repr_html_()
    tree = ElementTree.fromstring(piece)
    names = {element.tag for element in tree.iter()}
    assert not names & {"script", "link", "img", "iframe", "style"}
    assert not any(name.startswith("on") or name in ("href", "src") for one in tree.iter() for name in one.attrib)


@pytest.mark.parametrize("kind", ["comparison", "attribution"])
def test_hostile_names_appear_as_text(results: dict[str, Any], kind: str) -> None:
    piece = results[kind]._repr_html_()
    assert "<script" not in piece
    assert "<script>alert('x')</script> & \"quoted\" 🌊 שלום" in "".join(ElementTree.fromstring(piece).itertext())


@pytest.mark.parametrize("kind", ["certificate", "curve"])
def test_notebook_pieces_are_small(results: dict[str, Any], kind: str) -> None:
    assert len(results[kind]._repr_html_()) < 9_000


def test_a_certificate_shows_its_rate_and_its_whole_sentence(results: dict[str, Any]) -> None:
    cert = results["certificate"]
    words = "".join(ElementTree.fromstring(cert._repr_html_()).itertext())
    assert str(cert) in words
    assert f"{100 * cert.rate:.1f}".removesuffix(".0") + "%" in words


def test_a_curve_shows_its_last_radius_and_at_most_twelve_rows(results: dict[str, Any]) -> None:
    tree = ElementTree.fromstring(results["curve"]._repr_html_())
    rows = [[cell.text for cell in row] for row in tree.iter("tr")]
    assert len(rows) <= 13
    assert rows[-1][0] == "16"


def test_a_comparison_claims_what_its_ranking_claims(results: dict[str, Any]) -> None:
    comparison = results["comparison"]
    claims = [one.text or "" for one in ElementTree.fromstring(comparison._repr_html_()).iter("li")]
    assert len(claims) == len(comparison.radii)
    for radius, claim in zip(comparison.radii, claims, strict=True):
        assert (">" in claim) == bool(comparison.ranking(radius))


@pytest.mark.parametrize(
    ("share", "words"), [(1.0, "100%"), (0.9996, "&gt;99.9%"), (0.9994, "99.9%"), (0.0004, "&lt;0.1%"), (0.0, "0%")]
)
def test_a_rate_close_to_all_or_nothing_is_not_rounded_to_it(share: float, words: str) -> None:
    assert _percent(share) == words


def _picture(piece: str) -> Any:
    return next(element for element in ElementTree.fromstring(piece).iter("svg") if element.get("role") == "img")


@pytest.mark.parametrize("kind", ["curve", "mean", "comparison"])
def test_a_curve_is_drawn_with_axes_and_told_to_those_who_cannot_see_it(results: dict[str, Any], kind: str) -> None:
    picture = _picture(results[kind]._repr_html_())
    labels = [element.text for element in picture.iter("text")]
    assert {"0%", "100%", "stability rate", "radius (features added)"} <= set(labels)
    curve = results[kind].curves[0] if kind == "comparison" else results[kind]
    assert f"{_percent(curve.rates[-1])} at {curve.radii[-1]}" in picture.get("aria-label")
    assert {element.get("fill") for element in picture.iter("text")} == {"currentColor"}


def test_lines_of_a_comparison_differ_by_dashes_as_well_as_colour(results: dict[str, Any]) -> None:
    lines = list(_picture(results["comparison"]._repr_html_()).iter("polyline"))
    assert len({line.get("stroke") for line in lines}) == len({line.get("stroke-dasharray") for line in lines}) == 2


def test_a_single_radius_is_drawn_in_the_middle_and_a_probability_is_called_so() -> None:
    model, selected = _model(), np.arange(20) < 3
    [dot] = _picture(hf.certify_radii(model, selected, radii=[4], rng=0)._repr_html_()).iter("circle")
    assert 200 < float(dot.get("cx", "0")) < 300
    curve = hf.certify_probabilities(model, selected, probabilities=[0.2, 0.4], rng=0)
    assert "probability that each other feature is revealed" in _picture(curve._repr_html_()).get("aria-label", "")
