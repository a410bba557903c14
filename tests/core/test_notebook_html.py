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
        "attribution": hf.Attribution(
            np.linspace(-1, 1, 20), target=HOSTILE, method=HOSTILE, feature_names=(*names[:-1], HOSTILE)
        ),
    }


KINDS = ("certificate", "curve", "comparison", "attribution")


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
    assert len(results[kind]._repr_html_()) < 8_000


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
