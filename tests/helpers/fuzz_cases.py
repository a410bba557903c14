"""Every public function with a call that is right; what fuzzing spoils, argument by argument."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import holdfast as hf
from holdfast import boolean, data, models, study
from holdfast.validation import is_number
from tests.helpers.fakes import score_table

SELECTED = np.array([True, True, False, False, False, False])
SCORES = np.array([3.0, 2.0, -1.0, 0.5, 0.25, 0.0])
TABLE = np.arange(8.0) % 3
THREE = np.array([True, False, False])
ANSWERS = np.array(["84 m", "80 metres", "not known"], dtype=object)
ERRORS = hf.judging.judge_errors(50, 1, 2)
IMAGE = np.arange(48, dtype=np.float64).reshape(4, 4, 3) / 48

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A function, and arguments that it takes.

    ``work`` are the arguments whose size is the size of the work: there no huge number is tried, since what
    is asked for would be done. ``allowed`` are the errors that the documentation names besides holdfast's own.
    ``fixed`` are arguments that are not spoilt here, and why is said beside them.
    """

    function: Callable[..., Any]
    good: Callable[[], Arguments]
    work: tuple[str, ...] = ()
    allowed: tuple[type[BaseException], ...] = ()
    fixed: tuple[str, ...] = ()

    @property
    def can_be_spoilt(self) -> bool:
        return bool(set(self.good()) - set(self.fixed))


def model() -> Any:
    return score_table(6)


@cache
def tiny_language() -> tuple[Any, Any]:
    """A causal model and its tokenizer."""
    from tests.helpers.tiny_language import language_model, language_tokenizer

    return language_model("llama"), language_tokenizer(chat=True)


def context() -> Any:
    return hf.mask_context(
        lambda prompt: "84 m" if "tall" in prompt else "no", ["It rains.", "It is tall.", "So."], question="Well?"
    )


def asked(**more: Any) -> Callable[[], Arguments]:
    return lambda: {"model": model(), "selected": SELECTED.copy(), **more}


def with_rng(**more: Any) -> Callable[[], Arguments]:
    return asked(rng=0, batch_size=None, progress=None, **more)


SHARED = {"tolerance": 0.2, "confidence": 0.8, "agree": "same_top_class", "neighborhood": "additions"}
DRAWS = SHARED | {"plan": "hoeffding", "check_determinism": True}


def classify_images(images: Any) -> Any:
    flat = np.asarray(images, dtype=float).reshape(len(images), -1)
    return np.c_[flat.sum(axis=1), flat[:, 0]]


def classify_texts(texts: Any) -> Any:
    return np.array([[len(text), text.count("a")] for text in texts], dtype=float)


def classify_rows(rows: Any) -> Any:
    table = np.asarray(rows, dtype=float)
    return np.c_[table.sum(axis=1), table[:, 0]]


def bind(fill: Any) -> Any:
    return hf.mask_function(lambda masks: np.c_[masks.sum(axis=1) * (fill == 1), masks[:, 0]], n_features=6)


def certificate() -> hf.Certificate:
    return hf.certify(model(), SELECTED, radius=2, rng=0)


class Explained:
    """What lime returns, as far as it is read."""

    local_exp: ClassVar[dict[int, Any]] = {1: [(0, 0.5), (2, 0.1)]}


class Words:
    """A classifier of inputs for ``smoothed_accuracy``: what it binds has four features."""

    kind, classes = "text", ("no", "yes")

    def bind(self, one: Any) -> Any:
        return score_table(4, seed=len(str(one)), n_classes=2)


QUESTIONS = {
    "certify": Case(hf.certify, with_rng(radius=2, rate_kind="uniform", **DRAWS)),
    "certify_radii": Case(hf.certify_radii, with_rng(radii=[1, 2], rate_kind="uniform", simultaneous=False, **DRAWS)),
    "certify_probabilities": Case(
        hf.certify_probabilities,
        with_rng(
            probabilities=[0.2, 0.5], radius=2, simultaneous=False, tolerance=0.2, confidence=0.8, plan="hoeffding"
        ),
        work=("probabilities",),
    ),
    "certify_hard": Case(hf.certify_hard, with_rng(radius=2, max_enumerated=99, check_determinism=True, **SHARED)),
    "certified_radius": Case(
        hf.certified_radius,
        with_rng(min_rate=0.6, confidence=0.8, radii=[1, 2], max_draws=200, agree="same_top_class"),
        work=("max_draws", "radii"),
    ),
    "certify_mus": Case(
        hf.certify_mus,
        with_rng(keep_probability=0.25, n_levels=8, criterion="votes", round=False, input_removals=True),
        work=("n_levels",),
    ),
    "mus_model": Case(
        hf.mus_model, lambda: {"model": model(), "keep_probability": 0.5, "n_levels": 8, "rng": 0}, ("n_levels",)
    ),
    "smooth": Case(
        hf.smooth,
        lambda: {"model": model(), "keep_probability": 0.5, "n_samples": 8, "votes": True, "rng": 0},
        ("n_samples",),
    ),
    "find_witness": Case(
        hf.find_witness, with_rng(max_radius=3, max_calls=50, agree="same_top_class"), work=("max_calls",)
    ),
    "stability_bracket": Case(hf.stability_bracket, with_rng(max_radius=3, max_calls=50), work=("max_calls",)),
    "recheck": Case(hf.recheck, lambda: {"model": model(), "result": certificate(), "agree": None, "method": None}),
    "calibrate": Case(
        hf.calibrate,
        lambda: (
            {"inputs": [model()] * 4, "method": [SCORES] * 4, "radius": 1, "min_rate": 0.6, "share": 0.4, "rng": 0}
            | {"confidence": 0.8, "sizes": [5, 3], "thresholds": None, "guarantee": "new inputs", "per_class": False}
            | {"level": 0.1, "max_draws": 100, "absolute": False, "consistent": True, "options": None}
        ),
        work=("max_draws",),
    ),
    "plan_calibration": Case(
        hf.certification.plan_calibration,
        lambda: {"n_inputs": 30, "min_rate": 0.9, "share": 0.8, "confidence": 0.9, "sizes": [1, 2], "level": 0.1},
        work=("n_inputs",),
    ),
    "compare": Case(
        hf.compare,
        lambda: {"model": model(), "explanations": {"a": SELECTED, "b": ~SELECTED}, "radii": [1], "rng": 0, **SHARED},
    ),
    "fill_sensitivity": Case(
        hf.fill_sensitivity,
        lambda: {"bind": bind, "selected": SELECTED.copy(), "fills": [0.0, 1.0], "radius": 1, "rng": 0},
    ),
    "mean_curve": Case(
        hf.mean_curve,
        lambda: (
            {"subjects": [lambda: (model(), SELECTED)] * 2, "radii": [1, 2], "half_width": 0.3, "rng": 0}
            | {"confidence": 0.8, "simultaneous": False, "memory": None}
        ),
        fixed=("half_width",),  # a small one asks for draws without end, and gets them
    ),
    "plan_samples": Case(
        hf.plan_samples,
        lambda: {"tolerance": 0.2, "confidence": 0.8, "plan": "hoeffding", "selected": SELECTED, "radius": 2},
    ),
    "attribute": Case(
        hf.attribute,
        lambda: {"model": model(), "method": "lime", "n_samples": 40, "rng": 0, "target": None},
        ("n_samples",),
    ),
    "reexplain": Case(
        hf.reexplain,
        lambda: {"model": model(), "method": "occlusion", "radius": 1, "n_repeats": 2, "select": None, "rng": 0},
        work=("n_repeats",),
    ),
    "stabilize": Case(
        hf.stabilize,
        lambda: {
            "model": model(),
            "attribution": SCORES.copy(),
            "min_rate": 0.6,
            "radius": 1,
            "max_draws": 100,
            "rng": 0,
        },
        work=("max_draws",),
    ),
    "smoothed_accuracy": Case(
        hf.smoothed_accuracy,
        lambda: (
            {"classifier": Words(), "inputs": ["a", "bb"], "labels": [0, 1], "n_samples": 4, "rng": 0}
            | {"keep_probabilities": (1.0, 0.5), "confidence": 0.9}
        ),
        work=("n_samples",),
    ),
    "Evaluator": Case(
        lambda model, masks, **more: hf.Evaluator(model, **more)(masks),
        lambda: {"model": model(), "masks": np.eye(6, dtype=bool), "batch_size": 2, "progress": None, "timeout": None},
    ),
}

INPUTS = {
    "bind": Case(
        hf.bind,
        lambda: (
            {"model": classify_texts, "data": ["a day at sea", "so bad"], "features": "words", "fill": None}
            | {"labels": [1, 0], "names": ["a", "b"], "classes": ["no", "yes"], "kind": "text", "target": None}
            | {"background": None, "tokenizer": None, "processor": None, "device": None, "trusted": ()}
            | {"model_options": None, "data_options": None}
        ),
        allowed=(OSError,),
    ),
    "mask_image": Case(
        hf.mask_image,
        lambda: (
            {"classifier": classify_images, "image": IMAGE.copy(), "groups": (2, 2), "fill": 0.0, "softmax": False}
            | {"preprocess": None, "fill_stage": "after", "batch_size": 4, "device": None, "dtype": None}
        ),
        allowed=(OSError,),
    ),
    "mask_context": Case(
        hf.mask_context,
        lambda: (
            {"model": str.upper, "passages": ["a b", "c"], "question": "why?", "system": None, "numbering": "kept"}
            | {"reference": "yes", "exact": False, "template": "citing", "cites": None, "features": "sentences"}
            | {"tokenizer": None, "batched": False, "batch_size": 4, "fingerprint": None}
        ),
    ),
    "certify_citations": Case(
        hf.certify_citations,
        lambda: (
            {"context": context(), "cited": [2], "radius": 1, "min_rate": 0.9, "witness": True, "scores": None}
            | {"tolerance": 0.2, "confidence": 0.8, "plan": "exact", "agree": "same_answer", "reference": "84 m"}
            | {"answers": "fixed", "batch_size": 4, "progress": None, "check_determinism": True, "rng": 0}
        ),
        work=("tolerance", "confidence"),
    ),
    "Endpoint": Case(
        hf.Endpoint,
        lambda: (
            {"url": "http://127.0.0.1:9/v1", "model": "tiny", "n_at_once": 4, "timeout": 1.0, "max_tries": 2}
            | {"backoff": 0.0, "temperature": 0.0, "max_tokens": 8, "seed": None, "extra": {}, "budget_calls": 5}
            | {"budget_tokens": None, "cache": None, "key_variable": None}
        ),
    ),
    "CausalModel": Case(
        lambda **options: hf.CausalModel(*tiny_language(), **options),  # test_causal.py spoils what it is made of
        lambda: {"max_tokens": 8, "temperature": 0.0, "batch_size": 4},
    ),
    "read_citations": Case(hf.judging.read_citations, lambda: {"answer": "yes [1]", "n_passages": 3}),
    "mask_text": Case(
        hf.mask_text,
        lambda: (
            {"classifier": classify_texts, "text": "a day at sea", "features": "words", "fill": None, "softmax": False}
            | {"segments": None, "join": None, "batched": None, "batch_size": 4, "max_length": None}
        ),
    ),
    "mask_tabular": Case(
        hf.mask_tabular,
        lambda: (
            {"classifier": classify_rows, "row": np.arange(4.0), "background": np.ones((5, 4)), "fill": "mean"}
            | {"groups": None, "n_background": 3, "columns": None, "rng": 0, "softmax": False}
        ),
    ),
    "mask_function": Case(hf.mask_function, lambda: {"function": len, "n_features": 6}),
    "lookup_table": Case(hf.lookup_table, lambda: {"values": np.arange(8), "n_features": 3}),
    "grid": Case(hf.grid, lambda: {"image": IMAGE.copy(), "rows": 2, "cols": 2}),
    "segments": Case(hf.masking.segments, lambda: {"label_map": np.array([[0, 1], [2, 2]])}),
    "superpixels": Case(
        hf.superpixels,
        lambda: {"image": IMAGE.copy(), "n_segments": 4, "compactness": 10.0, "sigma": 0.0},
        ("n_segments", "sigma"),
    ),
    "columns": Case(hf.masking.columns, lambda: {"n": 4}),
    "column_groups": Case(hf.masking.column_groups, lambda: {"groups": {"a": ["x"], "b": ["y", "z"]}}),
    "resample": Case(hf.resample, lambda: {"background": np.ones((5, 4)), "nearest": 2}),
    "windows": Case(hf.masking.windows, lambda: {"length": 8, "width": 2}),
    "Additions": Case(hf.neighborhood.Additions, lambda: {"selected": SELECTED.copy(), "radius": 2}),
    "Removals": Case(hf.neighborhood.Removals, lambda: {"selected": SELECTED.copy(), "radius": 2}),
    "Swaps": Case(hf.neighborhood.Swaps, lambda: {"selected": SELECTED.copy(), "radius": 2}),
    "Bernoulli": Case(hf.distributions.Bernoulli, lambda: {"probability": 0.3}),
    "Weighted": Case(hf.distributions.Weighted, lambda: {"weights": [1, 2.5, 3], "radius": 2}),
    "Grouped": Case(hf.distributions.Grouped, lambda: {"tree": [[0, 1], [2, 3]]}),
    "check_neighborhood": Case(
        hf.distributions.check_neighborhood,
        lambda: {"neighborhood": "additions", "n_features": 4, "radius": 2},
        work=("n_features",),
    ),
}

SCORING = {
    "above": Case(hf.above, lambda: {"scores": SCORES.copy(), "threshold": 0.1, "absolute": False}),
    "positive": Case(hf.positive, lambda: {"scores": SCORES.copy()}),
    "top": Case(hf.top, lambda: {"scores": SCORES.copy(), "k": 2, "absolute": False}),
    "top_fraction": Case(hf.top_fraction, lambda: {"scores": SCORES.copy(), "fraction": 0.5, "absolute": True}),
    "adaptive_keep": Case(hf.smoothing.adaptive_keep, lambda: {"scores": SCORES.copy(), "lowest": 0.5, "highest": 1.0}),
    "selective_keep": Case(hf.smoothing.selective_keep, lambda: {"smoothed": SELECTED.copy(), "keep_probability": 0.5}),
    "from_array": Case(
        hf.from_array,
        lambda: (
            {"scores": SCORES.copy(), "model": None, "groups": None, "reduce": "sum", "target": None, "method": "given"}
            | {"feature_names": None}
        ),
        allowed=(OSError,),
    ),
    "from_captum": Case(
        hf.from_captum, lambda: {"attributions": SCORES.copy(), "model": None, "groups": None, "reduce": "sum"}
    ),
    "from_lime": Case(
        hf.from_lime, lambda: {"explanation": Explained(), "model": None, "target": None, "n_features": 6}
    ),
    "from_shap": Case(
        hf.from_shap, lambda: {"explanation": SCORES.copy(), "model": None, "target": 1, "row": None, "output": 1}
    ),
    "as_shapiq_game": Case(hf.as_shapiq_game, lambda: {"model": model(), "target": None}),
    "clopper_pearson": Case(
        hf.bounds.clopper_pearson, lambda: {"n_agreed": 3, "n_evaluated": 9, "confidence": 0.9, "side": "both"}
    ),
    "anytime_interval": Case(hf.bounds.anytime_interval, lambda: {"n_agreed": 3, "n_evaluated": 9, "confidence": 0.9}),
    "hoeffding": Case(hf.bounds.hoeffding, lambda: {"n_agreed": 3, "n_evaluated": 9, "confidence": 0.9}),
    "same_top_class": Case(
        lambda outputs, reference: hf.agreement.same_top_class(outputs, reference),
        lambda: {"outputs": np.eye(3), "reference": np.ones(3)},
        fixed=("outputs", "reference"),  # always what an evaluator has checked
    ),
    "same_top_set": Case(hf.agreement.same_top_set, lambda: {"k": 2}),
    "same_side": Case(hf.agreement.same_side, lambda: {"threshold": 0.5, "class_": 1}),
    "same_labels": Case(hf.agreement.same_labels, lambda: {"thresholds": [0.5, 0.3]}),
    "within": Case(hf.agreement.within, lambda: {"margin": 0.5}),
    "within_percent": Case(hf.agreement.within_percent, lambda: {"percent": 5}),
    "same_answer": Case(
        lambda outputs, reference: hf.judging.same_answer(outputs, reference),
        lambda: {"outputs": ANSWERS, "reference": "84 m"},
        fixed=("outputs", "reference"),  # always what an evaluator has checked
    ),
    "same_number": Case(
        lambda tolerance: hf.judging.same_number(tolerance)(ANSWERS, "84 metres"), lambda: {"tolerance": 0.5}
    ),
    "accepted_answers": Case(
        lambda answers: hf.judging.accepted_answers(answers)(ANSWERS, "84 metres"), lambda: {"answers": ["84 m", "84"]}
    ),
    "judge": Case(
        hf.judging.judge, lambda: {"function": str.startswith, "name": "starts", "batched": False, "errors": ERRORS}
    ),
    "same_meaning": Case(hf.judging.same_meaning, lambda: {"encode": len, "threshold": 0.5, "errors": None}),
    "entails": Case(hf.judging.entails, lambda: {"score": len, "threshold": 0.5, "both_ways": True, "errors": None}),
    "llm_judge": Case(
        hf.judging.llm_judge,
        lambda: (
            {"model": str.title, "question": "How tall?", "prompt": "{question} {answer} {reference}"}
            | {"errors": ERRORS}
        ),
    ),
    "judge_errors": Case(
        hf.judging.judge_errors, lambda: {"n_labelled": 50, "false_yes": 1, "false_no": 2, "confidence": 0.9}
    ),
    "JudgeErrors": Case(
        hf.judging.JudgeErrors, lambda: {"n_labelled": 50, "false_yes": 1, "false_no": 2, "confidence": 0.9}
    ),
}


def of_table(name: str, **more: Any) -> Case:
    """A function of a table and a few numbers."""
    function = getattr(boolean, name)
    first = next(iter(function.__code__.co_varnames[:1]))
    return Case(function, lambda: {first: TABLE.copy(), **more})


def small(function: Any) -> Callable[..., Any]:
    """Tables of 2ⁿ rows that fit into memory, and those that are refused; the ones between are honest work."""

    def call(n_features: Any, **more: Any) -> Any:
        return function(3 if is_number(n_features) and 11 < n_features < 31 else n_features, **more)

    return call


P = {"p": 0.5}
BOOLEAN = {
    **{name: of_table(name, out=None) for name in ("fourier", "inverse_fourier", "monotone", "inverse_monotone")},
    **{name: of_table(name, out=None) for name in ("fourier_to_monotone", "monotone_to_fourier")},
    **{
        name: of_table(name, **P, out=None)
        for name in ("biased", "inverse_biased", "fourier_to_biased", "biased_to_fourier")
    },
    **{name: of_table(name, **P, out=None) for name in ("biased_to_monotone", "monotone_to_biased")},
    "biased_to_biased": of_table("biased_to_biased", p=0.5, q=0.25, out=None),
    **{name: of_table(name) for name in ("degree_mass", "degree_weight", "tail_mass", "shapley")},
    **{name: of_table(name, **P) for name in ("banzhaf", "influences", "variance")},
    "interactions": of_table("interactions", order=2, index="shapley"),
    "noise_stability": of_table("noise_stability", rho=0.5, p=0.5),
    "smoothed_mass_bound": of_table("smoothed_mass_bound", lam=0.5),
    "smoothed_variance_bound": of_table("smoothed_variance_bound", lam=0.5, p=0.25),
    "flip_operator": of_table("flip_operator", rho=0.5, basis="table", p=None, out=None),
    "mask_operator": of_table("mask_operator", lam=0.5, basis="table", p=None, out=None),
    "mask_operator_rebiased": of_table("mask_operator_rebiased", lam=0.5, p=0.25, out=None),
    **{name: of_table(name, selected=THREE) for name in ("condition", "conditional_weights", "hide", "reveal")},
    "exact_rate": of_table("exact_rate", selected=THREE, radius=1, margin=0.5, agree=None),
    "exact_rates": of_table("exact_rates", selected=THREE, margin=0.5, agree=None),
    "hard_bound": of_table("hard_bound", selected=THREE, margin=0.5),
    "hard_radius": of_table("hard_radius", selected=THREE, margin=0.5, agree=None),
    "stability_bound": of_table("stability_bound", selected=THREE, radius=1, margin=0.5, form="weights"),
    "smoothed_stability_bound": of_table(
        "smoothed_stability_bound", selected=THREE, radius=1, margin=0.5, keep_probability=0.5, form="sharp"
    ),
    "gram_matrix": Case(small(boolean.gram_matrix), lambda: {"n_features": 3, "p": 0.5}),
    "by_degree": Case(small(boolean.by_degree), lambda: {"n_features": 3}),
    "degrees": Case(small(boolean.degrees), lambda: {"n_features": 3}),
    "features_of": Case(boolean.features_of, lambda: {"index": 5}),
    "index_of": Case(boolean.index_of, lambda: {"features": [0, 2]}),
    "inclusion_probabilities": Case(
        boolean.inclusion_probabilities, lambda: {"n_unselected": 4, "radius": 2}, work=("n_unselected", "radius")
    ),
    "tabulate": Case(boolean.tabulate, lambda: {"model": model(), "target": 0, "batch_size": None, "progress": None}),
    "low_degree_weights": Case(boolean.low_degree_weights, asked(degree=2, batch_size=None)),
    "estimate_coefficients": Case(
        boolean.estimate_coefficients,
        lambda: (
            {"model": model(), "subsets": [(0,), (1, 2)], "n_samples": 20, "score_range": (-9.0, 9.0), "rng": 0}
            | {"target": 0, "p": 0.5, "confidence": 0.9}
        ),
        work=("n_samples",),
    ),
    "estimate_level_weights": Case(
        boolean.estimate_level_weights,
        lambda: {
            "model": model(),
            "levels": [1, 2],
            "n_samples": 20,
            "score_range": (-9.0, 9.0),
            "rng": 0,
            "target": 0,
        },
        work=("n_samples",),
    ),
}

INPUTS_BOUND = hf.bind(lambda rows: rows[:, :2], np.eye(3), fill=0.0)
FILES = (OSError,)
MISSING = Path("no-such-folder") / "no-such-file.db"


def spec() -> study.StudySpec:
    return study.StudySpec(
        study.ModelSpec("bundled:vader"), study.DataSpec("bundled:sentences"), (study.MethodSpec("lime"),)
    )


STUDY = {
    "CertifySpec": Case(
        study.CertifySpec, lambda: {"radii": (1, 2), "tolerance": 0.1, "plan": "exact", "agree": "within(1)"}
    ),
    "DataSpec": Case(study.DataSpec, lambda: {"spec": "bundled:digits", "n": 3, "min_features": 1, "options": {}}),
    "MaskingSpec": Case(study.MaskingSpec, lambda: {"groups": [2, 2], "fill": 0.0, "options": {}}),
    "MethodSpec": Case(study.MethodSpec, lambda: {"name": "lime", "n_samples": 50, "options": {}}),
    "ModelSpec": Case(study.ModelSpec, lambda: {"spec": "bundled:vader", "options": {}, "trust": study.Trust()}),
    "Trust": Case(study.Trust, lambda: {"code": True, "types": ("a.B",), "download": False}),
    "MusSpec": Case(
        study.MusSpec, lambda: {"keep_probabilities": (0.5,), "n_levels": 4, "criterion": "votes"}, work=("n_levels",)
    ),
    "SmoothingSpec": Case(study.SmoothingSpec, lambda: {"keep_probabilities": (1.0, 0.5), "n_samples": 4}),
    "StudySpec": Case(study.StudySpec, lambda: {**vars(spec())}),
    "Ray": Case(
        study.Ray, lambda: {"n_workers": 2, "address": "auto", "cpus_per_worker": 1, "patience": 9, "timeout": 5}
    ),
    "Store": Case(study.Store, lambda: {"path": MISSING}, allowed=FILES),
    "export_study": Case(study.export_study, lambda: {"path": MISSING, "out": MISSING, "kind": "csv"}, allowed=FILES),
    "merge_studies": Case(study.merge_studies, lambda: {"paths": [MISSING], "out": MISSING}, allowed=FILES),
    "parse_spec": Case(
        study.parse_spec,
        lambda: {"text": 'model = "bundled:vader"\ndata = "bundled:sentences"\nmethods = ["lime"]', "name": "text"},
    ),
    "plan_study": Case(
        study.plan_study, lambda: {"spec": spec(), "timed": False, "assumed_rate": 0.9}, fixed=("timed",)
    ),
    "read_spec": Case(study.read_spec, lambda: {"path": MISSING}, allowed=FILES),
    "run_study": Case(
        study.run_study,
        lambda: {"spec": None, "path": MISSING, "inputs": [0], "engine": "local", "workers": 0, "timeout": None},
        allowed=FILES,
    ),
    "study_frame": Case(study.study_frame, lambda: {"path": MISSING}, allowed=FILES),
    "study_guarantee": Case(
        study.study_guarantee,
        lambda: {"results": MISSING, "method": "lime", "radius": 1, "min_rate": 0.9},
        allowed=FILES,
    ),
    "calibrate_study": Case(
        study.calibrate_study,
        lambda: {"results": MISSING, "min_rate": 0.9, "share": 0.8, "confidence": 0.9},
        allowed=FILES,
    ),
    "trusted_explanations": Case(
        study.trusted_explanations, lambda: {"results": MISSING, "radius": 1, "min_rate": 0.9}, allowed=FILES
    ),
    "run": Case(
        study.run,
        lambda: {"inputs": INPUTS_BOUND, "methods": ["random"], "store": MISSING, "radii": [1], "name": "study"},
        allowed=FILES,
    ),
    "Study": Case(study.Study, lambda: {"path": "study.db", "inputs": None}),
    "study_status": Case(study.study_status, lambda: {"path": MISSING}, allowed=FILES),
    "summarize_study": Case(
        study.summarize_study,
        lambda: {"results": MISSING, "confidence": 0.9, "n_resamples": 10, "rng": 0},
        allowed=FILES,
    ),
    "write_spec": Case(study.write_spec, lambda: {"spec": spec(), "path": MISSING}, allowed=FILES),
}

LOADING = {
    "models.available": Case(models.available, dict),
    "models.load": Case(
        models.load,
        lambda: {"spec": "onnx:no-such-file.onnx", "device": None, "dtype": None, "kind": None, "trusted": ()},
        allowed=FILES,
    ),
    "data.load": Case(data.load, lambda: {"spec": "tweeteval:no-such-folder", "split": "test"}, allowed=FILES),
}
