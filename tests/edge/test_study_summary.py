"""Summaries of studies: equal to enumeration, clamped as they say, reproducible, and quick."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from holdfast import Attribution, Certificate, HardCertificate, StabilityCurve, models
from holdfast.bounds import betting_mean, clopper_pearson
from holdfast.cli import main
from holdfast.errors import InvalidTypeError, InvalidValueError, StoreError, StudyError
from holdfast.randomness import stream
from holdfast.study import StudySummary, summarize_study
from holdfast.study import summary as summaries
from holdfast.study.records import pack_text, unpack_text
from holdfast.study.schema import seal_all
from holdfast.study.session import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MusSpec
from holdfast.study.store import Store
from holdfast.study.summary import read_columns
from tests.helpers.mixed_texts import LENGTHS, RADII, items, mixed_spec
from tests.helpers.oracles import exact_rate
from tests.helpers.study_support import edit, write_texts


@pytest.mark.parametrize("method", ["lime", "occlusion"])
@pytest.mark.parametrize("fraction", [0.25, 0.5])
def test_means_and_shares_are_those_of_the_certificates(mixed: Path, method: str, fraction: float) -> None:
    group = summarize_study(mixed).group(method, top_fraction=fraction)
    found = items(mixed, method, fraction)
    assert group.n_inputs == len(found) == len(LENGTHS)
    assert group.n_consistent == sum(one.curve[1].consistent for one in found)
    assert group.n_calls == sum(one.n_calls for one in found)
    assert group.attribution_calls == sum(one.attribution.n_calls for one in found)
    for soft, hard, radius in zip(group.soft, group.hard, RADII, strict=True):
        certificates = [one.curve[radius] for one in found]
        assert (soft.radius, hard.radius) == (radius, radius)
        assert soft.mean == pytest.approx(np.mean([one.rate_unbiased for one in certificates]), abs=1e-12)
        assert hard.mean == sum(one.n_agreed == one.n_evaluated for one in certificates) / len(certificates)


def test_beyond_the_length_of_a_text_its_largest_radius_counts(mixed_texts: Path, mixed: Path) -> None:
    """At radius 30 every text is exhausted: rates, hard rates and votes are those at all the features it has."""
    spec = mixed_spec(mixed_texts)
    classifier = models.load(spec.model.spec, **spec.model.options)
    lines = (mixed_texts / "test_text.txt").read_text().splitlines()
    found = items(mixed, "occlusion", 0.5)
    short = [one for one in found if one.curve[30].exact]
    assert len(short) >= 4
    for one in short:
        bound = classifier.bind(lines[one.input])
        n_free = int((~one.selected).sum())
        assert one.curve[30].effective_radius == n_free < 30
        assert one.curve[30].rate_unbiased == exact_rate(bound, one.selected, n_free)
    group = summarize_study(mixed).group("occlusion", top_fraction=0.5)
    for votes, keep in zip(group.mus, (0.125, 0.25), strict=True):
        assert votes.keep_probability == keep
        for at in votes.rates:
            radii = [(next(h for h in one.mus if h.keep_probability == keep).radius, one) for one in found]
            covered = [radius >= min(at.radius, int((~one.selected).sum())) for radius, one in radii]
            assert at.mean == sum(covered) / len(found)


def test_votes_that_cover_a_whole_text_hold_at_every_radius(tmp_path: Path, mixed_texts: Path) -> None:
    """Without clamping the share at radius 30 would be 0: no text has 30 words to reveal."""
    path = tmp_path / "a.db"
    run_study(mixed_spec(mixed_texts, top_fractions=(0.9,), mus=MusSpec((0.125,), n_levels=8)), path)
    rates = summarize_study(path).group("lime").mus[0].rates
    assert rates[-1].mean > 0
    assert all(a.mean >= b.mean for a, b in pairwise(rates))


def test_means_equal_enumeration_when_every_rate_is_exact(tmp_path: Path) -> None:
    folder = write_texts(tmp_path / "texts", 6, n_words=6)
    spec = mixed_spec(folder)
    run_study(spec, tmp_path / "a.db")
    classifier = models.load(spec.model.spec, **spec.model.options)
    lines = (folder / "test_text.txt").read_text().splitlines()
    group = summarize_study(tmp_path / "a.db").group("lime", top_fraction=0.25)
    found = items(tmp_path / "a.db", "lime", 0.25)
    for soft, hard in zip(group.soft, group.hard, strict=True):
        truth = [exact_rate(classifier.bind(lines[one.input]), one.selected, soft.radius) for one in found]
        assert soft.mean == pytest.approx(float(sum(truth) / len(truth)), abs=1e-12)
        assert hard.mean == sum(rate == 1 for rate in truth) / len(truth)


def test_bootstrap_intervals_equal_a_direct_computation(mixed: Path) -> None:
    group = summarize_study(mixed, n_resamples=300, rng=5).group("lime", top_fraction=0.25)
    found = items(mixed, "lime", 0.25)
    rates = np.array([[one.curve[radius].rate_unbiased for radius in RADII] for one in found])
    drawn = stream(5, "bootstrap").integers(len(found), size=(300, len(found)))
    expected = np.quantile(rates[drawn].mean(axis=1), [0.025, 0.975], axis=0).T
    assert np.array([one.approximate for one in group.soft]) == pytest.approx(expected, abs=1e-12)


def test_many_resamples_are_the_same_as_in_one_go(monkeypatch: pytest.MonkeyPatch, mixed: Path) -> None:
    whole = summarize_study(mixed, n_resamples=64)
    monkeypatch.setattr(summaries, "_TOGETHER", 7 * len(LENGTHS))
    summaries._resamples.cache_clear()
    assert summarize_study(mixed, n_resamples=64) == whole


def test_summaries_are_reproducible_by_seed(mixed: Path) -> None:
    assert summarize_study(mixed, rng=1) == summarize_study(mixed, rng=1)
    one, other = summarize_study(mixed, rng=1), summarize_study(mixed, rng=2)
    assert one != other
    assert [at.guaranteed for at in one.groups[0].soft] == [at.guaranteed for at in other.groups[0].soft]


def test_guaranteed_intervals_are_those_of_their_theorems(mixed: Path) -> None:
    group = summarize_study(mixed, confidence=0.9).group("lime", top_fraction=0.5)
    found = items(mixed, "lime", 0.5)
    rates = np.array([[one.curve[radius].rate_unbiased for radius in RADII] for one in found])
    assert [one.guaranteed for one in group.soft] == betting_mean(rates, confidence=0.9)
    counts = [round(one.mean * len(found)) for one in group.hard]
    assert [one.guaranteed for one in group.hard] == [clopper_pearson(k, len(found), confidence=0.9) for k in counts]


def test_a_summary_survives_json_and_has_a_frame(mixed: Path) -> None:
    summary = summarize_study(mixed)
    assert StudySummary.from_json(summary.to_json()) == summary
    frame = summary.to_frame()
    assert len(frame) == 4 * len(RADII) * 4  # groups × radii × (soft, hard, two of votes)
    row = frame[(frame.method == "lime") & (frame.top_fraction == 0.5) & (frame.kind == "hard")].iloc[0]
    assert row["mean"] == summary.group("lime", top_fraction=0.5).hard[0].mean
    assert list(frame.kind.unique()) == ["soft", "hard", "mus"]
    assert len(summary.differences[0].to_frame()) == len(RADII)
    edited = json.loads(summary.to_json())
    edited["groups"].append(edited["groups"][0])
    with pytest.raises(InvalidValueError, match="must differ in method"):
        StudySummary.from_json(json.dumps(edited))


def test_what_is_left_out_is_counted_and_in_no_mean(mixed_texts: Path, tmp_path: Path) -> None:
    data = DataSpec(f"tweeteval:{mixed_texts}", min_features=6)
    run_study(mixed_spec(mixed_texts, data=data), tmp_path / "a.db")
    summary = summarize_study(tmp_path / "a.db")
    assert (summary.n_inputs, summary.n_skipped, summary.n_to_do) == (9, 3, 0)
    assert {one.n_inputs for one in summary} == {6}
    assert "(3 inputs left out)" in str(summary)
    assert "Incomplete" not in summary.explain()
    assert "3 inputs left out belong to no mean." in summary.explain()


def test_a_summary_of_part_of_a_study_says_what_its_guarantee_needs(mixed_texts: Path, tmp_path: Path) -> None:
    run_study(mixed_spec(mixed_texts), tmp_path / "a.db", inputs=range(4))
    summary = summarize_study(tmp_path / "a.db")
    assert summary.n_to_do == 20
    assert "(20 items not computed)" in str(summary)
    assert "Incomplete: the guarantee holds only if what is missing does not depend on" in summary.explain()


def test_what_is_written_meanwhile_is_not_half_read(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that appears between two questions to the file would have rates and no place among the items."""
    path = tmp_path / "a.db"
    shutil.copy(mixed, path)
    before = summarize_study(path)

    def read_while_written(*args: object, **asked: object) -> object:
        edit(path, "INSERT OR REPLACE INTO rates SELECT item, 99, 99, 1, 1, 1, 1, 1, 1, 1 FROM items")
        return read_columns(*args, **asked)  # type: ignore[arg-type]

    monkeypatch.setattr(summaries, "read_columns", read_while_written)
    assert summarize_study(path) == before
    with pytest.raises(StoreError, match="differ from its certificates"):
        summarize_study(path)


def test_what_is_printed_of_a_guarantee_is_never_more_than_it(mixed: Path) -> None:
    summary = summarize_study(mixed)
    printed = [tuple(map(float, ends.split(", "))) for ends in re.findall(r" \[(\d[^\]]+)\]", str(summary))]
    exact = []
    for one in summary:
        kinds = (one.soft, one.hard, *(votes.rates for votes in one.mus))
        exact += [at.guaranteed for row in zip(*kinds, strict=True) for at in row]
    assert len(printed) == len(exact) == 4 * 4 * len(RADII)
    for (low, high), (shown_low, shown_high) in zip(exact, printed, strict=True):
        assert low - 0.0011 < shown_low <= low
        assert high + 0.0011 > shown_high >= high


def test_mean_curves_keep_their_own_intervals(mixed_texts: Path, tmp_path: Path) -> None:
    asked = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.1, confidence=0.9)
    run_study(mixed_spec(mixed_texts, certify=asked), tmp_path / "means.db")
    summary = summarize_study(tmp_path / "means.db")
    with Store(tmp_path / "means.db") as store:
        curves = store.mean_curves()
    assert summary.differences == ()
    for group in summary:
        curve = curves[group.key]
        assert group.confidence == 0.9  # also of votes, though the summary was asked for at 0.95
        assert [share.guaranteed for votes in group.mus for share in votes.rates] == [
            clopper_pearson(round(share.mean * group.n_inputs), group.n_inputs, confidence=0.9)
            for votes in group.mus
            for share in votes.rates
        ]
        assert group.hard == ()
        assert [mean.mean for mean in group.soft] == list(curve.rates)
        assert [mean.guaranteed for mean in group.soft] == list(curve.population_intervals)
        assert [mean.approximate for mean in group.soft] == [None, None]
        assert [len(votes.rates) for votes in group.mus] == [2, 2]
    assert StudySummary.from_json(summary.to_json()) == summary
    assert "90% confidence for each interval" in str(summary)
    assert "bootstrap" not in summary.explain()


def test_removals_have_their_own_votes_and_swaps_none(mixed_texts: Path, tmp_path: Path) -> None:
    for kind in ("removals", "swaps"):
        run_study(
            mixed_spec(mixed_texts, certify=CertifySpec(radii=(1, 30), neighborhood=kind)), tmp_path / f"{kind}.db"
        )
    assert all(one.mus == () for one in summarize_study(tmp_path / "swaps.db"))
    found = items(tmp_path / "removals.db", "lime", 0.5)
    rates = summarize_study(tmp_path / "removals.db").group("lime", top_fraction=0.5).mus[1].rates
    for at in rates:
        held = [(one.mus[1].removal_radius or 0) >= min(at.radius, int(one.selected.sum())) for one in found]
        assert at.mean == sum(held) / len(found)


def test_a_summary_of_a_study_of_a_distribution_names_the_distribution(
    mixed: Path, mixed_texts: Path, tmp_path: Path
) -> None:
    spec = mixed_spec(mixed_texts, certify=CertifySpec(radii=(1, 30), neighborhood="bernoulli(0.3)"))
    run_study(spec, tmp_path / "law.db")
    head = str(summarize_study(tmp_path / "law.db")).splitlines()[0]
    assert "revealing each other feature with probability 0.3 (at most r)" in head
    assert "revealing" not in str(summarize_study(mixed)).splitlines()[0]


def test_bad_questions_are_refused(mixed: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="`confidence` must be a number strictly between 0 and 1, got 95"):
        summarize_study(mixed, confidence=95)
    with pytest.raises(InvalidValueError, match="`n_resamples` must be a whole number ≥ 1, got 0"):
        summarize_study(mixed, n_resamples=0)
    with pytest.raises(InvalidTypeError, match="`rng` must be"):
        summarize_study(mixed, rng="seed")  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="does not exist; it must be a file of results"):
        summarize_study(tmp_path / "none.db")
    summary = summarize_study(mixed)
    with pytest.raises(InvalidValueError, match=r"exactly one with method='lime', got 2\. There are"):
        summary.group("lime")
    with pytest.raises(InvalidValueError, match="got 0"):
        summary.difference("lime", "shap", top_fraction=0.5)
    with pytest.raises(InvalidValueError, match="must pick one cut to rank at"):
        summary.ranking(1)
    with pytest.raises(InvalidValueError, match="`radius` must be one of 1, 2, 5, 30, got 3"):
        summary.ranking(3, top_fraction=0.5)


def test_a_study_without_items_has_no_summary(mixed_texts: Path, tmp_path: Path) -> None:
    data = DataSpec(f"tweeteval:{mixed_texts}", min_features=99)
    run_study(mixed_spec(mixed_texts, data=data), tmp_path / "a.db")
    with pytest.raises(StudyError, match="has nothing to summarise yet"):
        summarize_study(tmp_path / "a.db")


def test_rates_that_have_no_unbiased_estimate_are_refused(mixed: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    shutil.copy(mixed, path)
    with Store(path) as store:
        ((packed,),) = store.query("SELECT curve FROM items WHERE item = 3")
    text = re.sub(r'"rate_unbiased": [^,]+', '"rate_unbiased": null', unpack_text(packed))
    edit(path, "UPDATE items SET curve = ? WHERE item = 3", pack_text(text))
    edit(path, "UPDATE rates SET rate_unbiased = NULL WHERE item = 3")
    with pytest.raises(StoreError, match="without an unbiased estimate"):
        summarize_study(path)


def test_rates_that_certificates_do_not_state_are_refused(mixed: Path, tmp_path: Path) -> None:
    for change in ("UPDATE rates SET rate = 0 WHERE item = 3", "DELETE FROM rates WHERE item = 3"):
        path = tmp_path / f"{change.split()[0]}.db"
        shutil.copy(mixed, path)
        edit(path, change)
        with pytest.raises(StoreError, match=r"The rates of item 0/.* differ from its certificates"):
            summarize_study(path)


def test_the_command_prints_the_summary(mixed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "summary", str(mixed)]) == 0
    assert capsys.readouterr().out.strip() == str(summarize_study(mixed))
    assert main(["study", "summary", str(mixed), "--json", "--confidence", "0.9"]) == 0
    assert StudySummary.from_json(capsys.readouterr().out) == summarize_study(mixed, confidence=0.9)
    assert main(["study", "summary", "nowhere.db"]) == 3


def fill(path: Path, *, n_inputs: int, methods: list[str], radii: range) -> None:
    """Many items, made up, straight into the tables of a store that has one of them."""
    with sqlite3.connect(path) as connection:
        spec = json.loads(connection.execute("SELECT value FROM meta WHERE name = 'spec'").fetchone()[0])
        spec["certify"]["radii"] = list(radii)
        spec["methods"] = [spec["methods"][0] | {"name": name} for name in methods]
        connection.execute("UPDATE meta SET value = ? WHERE name = 'spec'", (json.dumps(spec),))
        connection.execute("UPDATE meta SET value = ? WHERE name = 'n_inputs'", (str(n_inputs),))
        (packed, mus) = connection.execute(
            "SELECT a.content, i.mus FROM items i JOIN attributions a USING (input, method) LIMIT 1"
        ).fetchone()
        for table in ("rates", "items", "attributions", "inputs"):
            connection.execute(f"DELETE FROM {table}")
        rng = np.random.default_rng(0)
        for index in range(n_inputs):
            connection.execute("INSERT INTO inputs VALUES (?, NULL, '1', 196, 'm', 'i', NULL)", (index,))
            for method in methods:
                connection.execute("INSERT INTO attributions VALUES (?, ?, ?, 1, 0.5)", (index, method, packed))
                stated = zip(radii, rng.random(len(radii)).tolist(), strict=True)
                rows = [(radius, radius, rate, rate, 0.0, 1.0, 9, 10, 0) for radius, rate in stated]
                curve = pack_text(json.dumps({"certificates": [as_stated(row) for row in rows]}))
                values = (index, method, 0.25, 1.0, b"", 49, "1", 1, curve, mus, None, 10, 10, 0.5, "", 1)
                cursor = connection.execute(f"INSERT INTO items VALUES (NULL, {', '.join('?' * 16)})", values)
                for row in rows:
                    connection.execute(f"INSERT INTO rates VALUES ({', '.join('?' * 10)})", (cursor.lastrowid, *row))
        seal_all(connection)
    connection.close()


def as_stated(row: tuple[float, ...]) -> dict[str, object]:
    names = ("radius", "effective_radius", "rate", "rate_unbiased", "low", "high", "n_agreed", "n_evaluated", "exact")
    stated = dict(zip(names, row, strict=True))
    return stated | {"interval": {"low": stated["low"], "high": stated["high"]}}


def test_many_items_are_summarised_without_decoding_a_certificate(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long ten thousand take is told by `python -m benchmarks study`."""
    path = tmp_path / "large.db"
    shutil.copy(mixed, path)
    fill(path, n_inputs=300, methods=["lime", "shap", "occlusion", "mfaba", "random"], radii=range(1, 11))
    for kind in (Certificate, StabilityCurve, HardCertificate, Attribution):
        monkeypatch.setattr(kind, "from_json", lambda *_: pytest.fail("a stored value was decoded"))
    summary = summarize_study(path)
    assert sum(one.n_inputs for one in summary) == 1500
    assert len(summary.differences) == 10
    assert all(0.4 < at.mean < 0.6 for one in summary for at in one.soft)
