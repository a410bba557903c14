"""Findings about masking and flipping say what the data say."""

from __future__ import annotations

from holdfast.bounds import Interval
from holdfast.experiments import spectra
from holdfast.experiments.words import Contrast

UP, DOWN, OPEN = (Contrast(x, Interval(x - 0.1, x + 0.1)) for x in (0.5, -0.5, 0.0))


def spectral(operator: str, degree: int, lift: Contrast) -> spectra.Cell:
    return spectra.Cell(operator, 0.5, degree, 2.0, Interval(1.9, 2.1), lift)


def test_masking_and_flipping_are_told_as_they_are() -> None:
    usual = [spectral("masking", 0, UP), spectral("masking", 5, DOWN), spectral("flipping", 0, OPEN)]
    told = spectra.tell(usual, 8)
    assert "here, too, masking raises low degrees at the cost of higher ones and flipping raises none" in told
    assert "by definition it leaves degree 0 unchanged" in told
    strange = [spectral("masking", 0, DOWN), spectral("flipping", 1, UP)]
    told = spectra.tell(strange, 8)
    assert "here masking does so at no amount, and flipping raises some degree, which contradicts it" in told


def test_mass_that_moves_to_high_degrees_is_not_taken_for_the_paper_s() -> None:
    upward = [spectral("masking", 0, DOWN), spectral("masking", 5, UP), spectral("flipping", 1, DOWN)]
    assert "here masking does so at no amount, and flipping raises none" in spectra.tell(upward, 8)


def test_without_smoothing_spectra_are_not_compared() -> None:
    plain = [spectra.Cell(one, 1.0, 0, 2.0, Interval(1.9, 2.1), OPEN) for one in ("masking", "flipping")]
    assert spectra.tell(plain, 8).endswith("there is nothing to compare.")


def test_factors_of_masses_stand_beside_the_exact_ones() -> None:
    told = spectra.tell([spectral("masking", 0, UP), spectral("flipping", 0, OPEN)], 8)
    assert f"to 1.33 times (exactly {1.25**6:.2f} over all spectra)" in told
