"""Findings about masking and flipping say what the data say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.bounds import Interval
from holdfast.experiments import Request, reproduce, spectra
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


@pytest.mark.parametrize("n", [1, 8, 19])
def test_too_few_spectra_say_that_they_cannot_tell_and_contradict_nothing(n: int, tmp_path: Path) -> None:
    told = reproduce("masking", Request(n=n), output=tmp_path).findings
    assert told.startswith(f"{n} random {'spectrum' if n == 1 else 'spectra'} of 12 features. The paper reports that")
    assert "masking moves mass from high degrees to low ones; this number of spectra cannot tell." in told
    assert not [words for words in ("at no amount", "raises", "lowers", "contradicts") if words in told]


def test_twenty_spectra_say_what_they_can() -> None:
    few = [replace(spectral("masking", 0, UP), lift=replace(UP, n=19)), spectral("flipping", 1, DOWN)]
    assert "this number of spectra cannot tell." in spectra.tell(few, 19)
    enough = [replace(cell, lift=replace(cell.lift, n=20)) for cell in few]
    assert "cannot tell" not in spectra.tell(enough, 20)


def test_an_amount_at_which_nothing_moves_for_sure_is_open_and_none_is_contradicted() -> None:
    def at(amount: float, degree: int, lift: Contrast) -> spectra.Cell:
        return replace(spectral("masking", degree, lift), amount=amount)

    flips, moved = [spectral("flipping", 1, DOWN)], [at(0.5, 0, UP), at(0.5, 5, DOWN)]
    undecided = [at(0.9, 0, OPEN), at(0.9, 5, DOWN)]
    against = [at(0.75, 0, DOWN), at(0.75, 5, UP)]
    open_ = "cannot be told at this number of spectra, and flipping raises none"
    told = spectra.tell([*moved, *undecided, *flips], 32)
    assert f"here masking does so at 0.5, whether it does at 0.9 {open_}" in told
    assert f"here whether masking does so at 0.9 {open_}" in spectra.tell([*undecided, *flips], 32)
    told = spectra.tell([*moved, *against, *undecided, *flips], 32)
    assert f"here masking does so at 0.5 but not at 0.75, whether it does at 0.9 {open_}" in told
    told = spectra.tell([*against, *undecided, *flips], 32)
    assert f"here masking does so not at 0.75, whether it does at 0.9 {open_}" in told
    assert "masking does so at 0.5 but not at 0.75, and flipping raises none" in spectra.tell(
        [*moved, *against, *flips], 32
    )
