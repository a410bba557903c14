"""Which inputs a study takes, a random sample or the first: the same in every run, and what is said of them."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from holdfast.bounds import certified_count, certified_share
from holdfast.cli import main
from holdfast.errors import InvalidValueError, StudyError
from holdfast.report import page as pages
from holdfast.report.rows import study_accuracy
from holdfast.study.guarantee import DataSetGuarantee
from holdfast.study.merge import merge_studies
from holdfast.study.records import inputs_of
from holdfast.study.session import run_study
from holdfast.study.spec import (
    CertifySpec,
    DataSpec,
    MethodSpec,
    MusSpec,
    SmoothingSpec,
    StudySpec,
    write_spec,
)
from holdfast.study.status import study_status
from holdfast.study.store import Store
from holdfast.study.summary import StudySummary, summarize_study
from tests.helpers.study_support import TRUST, make_spec, write_texts

study_guarantee = partial(hf.study.study_guarantee, trust=TRUST)
write_report = partial(pages.write_report, trust=TRUST)

N_THERE = 12
POPULATION = "population"


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_texts(tmp_path_factory.mktemp("texts"), N_THERE)


def some(texts: Path, n: int | None = 4, order: str = "random", **changes: Any) -> StudySpec:
    """A small study of n inputs."""
    asked: dict[str, Any] = {
        "data": DataSpec(f"tweeteval:{texts}", n=n, order=order),
        "methods": (MethodSpec("lime", n_samples=40), MethodSpec("occlusion")),
        "top_fractions": (0.25,),
        "smoothing": SmoothingSpec(),
        "mus": MusSpec((0.25,), n_levels=8),
    }
    return make_spec(texts, **(asked | changes))


def stored_inputs(path: Path) -> set[int]:
    with Store(path) as store:
        return {index for (index,) in store.query("SELECT DISTINCT input FROM items")}


def page(path: Path, output: Path, **options: Any) -> str:
    write_report(path, output, n_gallery=1, **options)
    return output.read_text(encoding="utf-8")


# -- which inputs -----------------------------------------------------------------------------------


def test_fewer_inputs_than_there_are_are_a_random_sample_by_the_seed(texts: Path, tmp_path: Path) -> None:
    spec = some(texts)
    run_study(spec, tmp_path / "a.db")
    sample = inputs_of(spec, N_THERE)
    assert stored_inputs(tmp_path / "a.db") == set(sample) != {0, 1, 2, 3}
    assert set(inputs_of(replace(spec, seed=12), N_THERE)) != set(sample)
    run_study(some(texts, order="first"), tmp_path / "b.db")
    assert stored_inputs(tmp_path / "b.db") == {0, 1, 2, 3}
    with Store(tmp_path / "a.db") as store:
        assert store.inputs() == sample
        assert (store.spec.data.order, store.spec.seed, store.n_there) == ("random", 11, N_THERE)


def test_every_input_is_as_likely_and_larger_samples_contain_smaller_ones(texts: Path) -> None:
    """1,000 samples of 3 of 6: each input is in half of them, but for 5 standard deviations."""
    counts: Counter[int] = Counter()
    spec = some(texts, 3)
    for seed in range(1000):
        counts.update(inputs_of(replace(spec, seed=seed), 6))
    assert all(abs(counts[index] - 500) < 5 * 250**0.5 for index in range(6))
    assert inputs_of(some(texts, 7), 12)[:3] == inputs_of(some(texts, 3), 12)
    later = [index for index in inputs_of(some(texts, 19), 20) if index < 12]
    assert later == [index for index in inputs_of(some(texts, 11), 12) if index in later][: len(later)]


@pytest.mark.parametrize("order", ["random", "first"])
def test_all_inputs_are_all_inputs_in_any_order(texts: Path, order: str) -> None:
    assert inputs_of(some(texts, None, order), 5) == inputs_of(some(texts, 5, order), 5) == range(5)
    with pytest.raises(InvalidValueError, match=r"`data.n` must be at most 5, the number of inputs, got 6"):
        inputs_of(some(texts, 6, order), 5)


def test_interrupted_parallel_grown_and_merged_studies_have_the_same_inputs(texts: Path, tmp_path: Path) -> None:
    whole, cut, grown = (tmp_path / f"{name}.db" for name in ("whole", "cut", "grown"))
    run_study(some(texts), whole)
    run_study(some(texts), cut, inputs=[0, 2])
    part = study_status(cut)
    assert (part.n_inputs, part.n_done, part.complete) == (4, 4, False)
    assert run_study(some(texts), cut, workers=2).status.complete
    run_study(some(texts, 2), grown)
    assert run_study(some(texts), grown).status.complete
    for name, places in (("a", range(1)), ("b", range(1, 4))):
        run_study(some(texts), tmp_path / f"{name}.db", inputs=places)
    merge_studies([tmp_path / "a.db", tmp_path / "b.db"], tmp_path / "merged.db")
    with Store(whole) as store:
        inputs, digests = store.inputs(), store.digests()
    for path in (cut, grown, tmp_path / "merged.db"):
        with Store(path) as store:
            assert sorted(store.digests().items()) == sorted(digests.items())
            assert (store.inputs(), store.n_there) == (inputs, N_THERE)
        assert study_status(path).complete
        assert summarize_study(path).groups[0].soft == summarize_study(whole).groups[0].soft


def test_what_is_asked_for_counts_and_not_what_else_is_stored(texts: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    run_study(some(texts, order="first"), path)
    run_study(some(texts), path)
    run_study(some(texts), tmp_path / "b.db")
    assert len(stored_inputs(path)) > 4
    assert study_status(path).n_done == study_status(path).n_items == 8
    assert summarize_study(path).groups[0].soft == summarize_study(tmp_path / "b.db").groups[0].soft
    asked: dict[str, Any] = {"method": "lime", "radius": 3, "min_rate": 0.6}
    for stored in (False, True):
        both = [study_guarantee(one, **asked, stored=stored) for one in (path, tmp_path / "b.db")]
        assert both[0] == both[1]


def test_files_about_different_samples_are_not_merged(texts: Path, tmp_path: Path) -> None:
    run_study(some(texts), tmp_path / "a.db")
    run_study(some(texts, 5, order="first"), tmp_path / "b.db")
    with pytest.raises(StudyError, match="the data or their order differ"):
        merge_studies([tmp_path / "a.db", tmp_path / "b.db"], tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()


def test_mean_curves_are_over_the_sample(texts: Path, tmp_path: Path) -> None:
    certify = CertifySpec(radii=(1, 3), precision="data-set", half_width=0.2)
    run_study(some(texts, certify=certify, mus=MusSpec()), tmp_path / "a.db")
    with Store(tmp_path / "a.db") as store:
        [inputs, *_] = [json.loads(row[0]) for row in store.query("SELECT inputs FROM mean_curves")]
        assert inputs == sorted(store.inputs())
    assert study_status(tmp_path / "a.db").complete


def test_a_study_can_ask_for_the_first(texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_spec(some(texts, order="first"), tmp_path / "study.toml")
    study = [str(tmp_path / "study.toml"), "--trust", "code"]
    assert main(["study", "run", *study, "--quiet", "--output", str(tmp_path / "named.db")]) == 0
    assert stored_inputs(tmp_path / "named.db") == {0, 1, 2, 3}
    assert not (tmp_path / "study.db").exists()
    assert main(["study", "plan", *study, "--untimed"]) == 0
    assert "of 4 inputs" in capsys.readouterr().out
    with pytest.raises(InvalidValueError, match=r"`data.order` must be one of random, first"):
        DataSpec("bundled:digits", order="last")


# -- what is said of them ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Results of a random sample, of the first, and of all, asked for in two ways."""
    folder = tmp_path_factory.mktemp("files")
    specs = {"sample": some(texts), "first": some(texts, order="first"), "all": some(texts, None, "first")}
    specs["counted"] = some(texts, N_THERE, "first")
    specs["all"] = replace(specs["all"], methods=(*specs["all"].methods, MethodSpec("random")))
    for name, spec in specs.items():
        run_study(spec, folder / f"{name}.db")
    return {name: folder / f"{name}.db" for name in specs}


SAID = {"sample": True, "all": True, "counted": True, "first": False}


@pytest.mark.parametrize(("name", "said"), SAID.items())
def test_a_summary_speaks_of_a_population_only_if_the_inputs_can(files: dict[str, Path], name: str, said: bool) -> None:
    summary = summarize_study(files[name])
    assert summary.population is said
    assert (POPULATION in summary.explain()) is said
    assert ("for the mean over exactly these inputs, the first of the data" in summary.explain()) is not said
    assert StudySummary.from_json(summary.to_json()) == summary
    row = next(line for line in str(summary).splitlines() if line.startswith("  3 "))
    assert row.count("[") - row.count("≈[") == (3 if said else 1), "shares of exactly these inputs are known"


@pytest.mark.parametrize(("name", "said"), SAID.items())
def test_a_guarantee_speaks_of_a_population_only_if_the_inputs_can(
    files: dict[str, Path], name: str, said: bool
) -> None:
    for stored in (True, False):
        guarantee = study_guarantee(files[name], method="lime", radius=3, min_rate=0.6, stored=stored)
        assert (guarantee.share is not None) is said
        assert (POPULATION in guarantee.explain()) is said
        assert ("of such inputs" in str(guarantee)) is ("of such inputs" in guarantee.explain()) is said
        assert (f"At least {guarantee.count} of these {guarantee.n_inputs} inputs" in str(guarantee)) is not said
        assert f"At least {guarantee.count} of exactly these {guarantee.n_inputs} inputs" in guarantee.explain()
        assert DataSetGuarantee.from_json(guarantee.to_json()) == guarantee


def test_inputs_left_out_are_told_without_a_population_too(files: dict[str, Path]) -> None:
    guarantee = study_guarantee(files["first"], method="lime", radius=3, min_rate=0.6, stored=True)
    assert "Of the study's inputs, 2 were left out." in replace(guarantee, n_skipped=2).explain()


@pytest.mark.parametrize(("name", "said"), SAID.items())
def test_a_page_speaks_of_a_population_only_if_the_inputs_can(
    files: dict[str, Path], name: str, said: bool, tmp_path: Path
) -> None:
    spec = _spec_of(files[name])
    accuracy = {spec.name: study_accuracy(spec, n_inputs=6)}
    html = page(files[name], tmp_path / "report.html", accuracy=accuracy)
    # Once in how to read the page, whatever is on it.
    assert (html.count(POPULATION) > 1) is said
    assert ("exactly these 4 inputs" in html) is not said
    if name == "sample":
        assert "4 of 12, at random (seed 11)" in html
    if name == "first":
        assert "4 of 12, the first" in html


def _spec_of(path: Path) -> StudySpec:
    with Store(path) as store:
        return store.spec.trusting(TRUST)


def test_accuracy_is_measured_in_the_order_of_the_study(texts: Path) -> None:
    shares = {order: study_accuracy(some(texts, 3, order), n_inputs=3).accuracies for order in ("random", "first")}
    assert shares["random"] != shares["first"]


# -- whether enough inputs reach it -----------------------------------------------------------------


def guarantee_of(n_certified: int, n_refuted: int, n: int, *, share: bool) -> DataSetGuarantee:
    risks = {"level": 0.02, "confidence": 0.9}
    return DataSetGuarantee(
        "lime", 0.25, 1.0, radius=3, min_rate=0.8, **risks, n_inputs=n, n_certified=n_certified, n_refuted=n_refuted,
        share=certified_share(n_certified, n, **risks) if share else None,
        count=certified_count(n_certified, n, **risks), n_consistent=n, n_skipped=0, n_missing=0, n_calls=9,
        source="fresh", neighborhood="additions", agree="same_top_class", model="m", data="d",
    )  # fmt: skip


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize(
    ("n_certified", "n_refuted", "answer"),
    [(195, 0, True), (195, 5, True), (0, 195, False), (100, 0, None), (0, 0, None)],
)
def test_a_share_is_reached_missed_or_undecided(
    n_certified: int, n_refuted: int, answer: bool | None, share: bool
) -> None:
    assert guarantee_of(n_certified, n_refuted, 200, share=share).reaches(0.9) is answer


def test_neither_answer_goes_beyond_the_counts(files: dict[str, Path]) -> None:
    """What certified inputs show and refuted ones deny, at the edge."""
    guarantee = guarantee_of(190, 10, 200, share=False)
    assert guarantee.reaches(guarantee.count / 200) is True
    assert guarantee.reaches(guarantee.count / 200 + 1e-6) is None
    most = 1 - certified_count(10, 200, level=0.02, confidence=0.9) / 200
    assert guarantee.reaches(most - 1e-6) is None
    assert guarantee.reaches(most + 1e-6) is False
    with pytest.raises(InvalidValueError, match="n_refuted"):
        guarantee_of(190, 11, 200, share=True).check()
    for stored in (True, False):
        found = study_guarantee(files["all"], method="random", radius=3, min_rate=0.95, stored=stored)
        assert found.n_refuted > 0
        assert found.n_certified + found.n_refuted <= found.n_inputs == N_THERE


@pytest.mark.parametrize(
    ("method", "min_share", "code", "word"),
    [("lime", "0.5", 0, "yes"), ("random", "0.9", 1, "no"), ("lime", "0.9", 2, "undecided"), ("lime", "1.5", 3, "")],
)
def test_the_command_answers_with_its_exit_code(
    files: dict[str, Path], capsys: pytest.CaptureFixture[str], method: str, min_share: str, code: int, word: str
) -> None:
    words = ["study", "guarantee", str(files["all"]), "--method", method, "--radius", "3", "--min-rate", "0.9"]
    words += ["--trust", "code"]
    assert main([*words, "--min-share", min_share]) == code
    printed = capsys.readouterr()
    if code == 3:
        assert "`--min-share` must be" in printed.err
    else:
        assert printed.out.splitlines()[-1] == f"At least {100 * float(min_share):g}% of inputs such as these: {word}."
        assert main([*words, "--min-share", min_share, "--json"]) == code
        assert "share" in json.loads(capsys.readouterr().out)
