"""The main job on the models that come with holdfast: five studies of images, texts and table rows, and one page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.extras import check_installed, needed
from holdfast.report.page.source import study_accuracy
from holdfast.report.page.write import write_report
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study.engines import InProcess
from holdfast.study.run import run_study
from holdfast.study.spec import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, MusSpec, StudySpec
from holdfast.study.work import study_inputs
from holdfast.words import counted

PAGE = "report.html"
TITLE = "Do these explanations hold fast?"

_ANY_MODEL = ("lime", "shap", "occlusion", "random")
_WITH_GRADIENTS = ("lime", "shap", "integrated_gradients", "mfaba", "occlusion", "random")
_N_MASKS = {"lime": 300, "shap": 300}
_VOTES = MusSpec((0.5, 0.25, 0.125), n_levels=64)
_N_GALLERY, _N_LABELLED = 9, 40


def demo_studies(*, n_inputs: int | None = None, rng: int = 0) -> dict[str, StudySpec]:
    """The studies of the demo by the names of their files; ``n_inputs`` of each, or as many as three minutes allow.

    Examples
    --------
    >>> list(demo_studies())
    ['digits-vit', 'digits-resnet', 'moods-roberta', 'moods-vader', 'tumours-forest']
    """

    def study(name: str, model: str, data: str, n: int, radii: tuple[int, ...], methods: tuple[str, ...]) -> StudySpec:
        texts = data == "sentences"
        return StudySpec(
            ModelSpec(f"bundled:{model}"),
            DataSpec(f"bundled:{data}", n=n_inputs or n),
            tuple(MethodSpec(method, n_samples=_N_MASKS.get(method)) for method in methods),
            masking=MaskingSpec(groups={"digits": (8, 8), "sentences": "words"}.get(data)),
            certify=CertifySpec(radii=radii),
            mus=_VOTES,
            witness=texts,  # the search for the smallest change is short where there are few features
            seed=rng,
            name=name,
        )

    pixels, words, columns = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 12, 16)
    return {
        "digits-vit": study("Digits, vision transformer", "digits-vit", "digits", 16, pixels, _WITH_GRADIENTS),
        "digits-resnet": study("Digits, ResNet", "digits-resnet", "digits", 16, pixels, _WITH_GRADIENTS),
        "moods-roberta": study("Moods, RoBERTa", "lexicon-roberta", "sentences", 24, words, _WITH_GRADIENTS),
        "moods-vader": study("Moods, VADER", "vader", "sentences", 60, words, _ANY_MODEL),
        "tumours-forest": study("Tumours, forest", "cancer-forest", "cancer", 24, columns, _ANY_MODEL),
    }


def run_demo(folder: str | Path, *, n_inputs: int | None = None, rng: int = 0) -> Iterator[str]:
    """Run the studies into files of the folder and write the page; yields the lines to print.

    The studies start afresh: files of an earlier demo in this folder are replaced.
    """
    studies = demo_studies(n_inputs=n_inputs, rng=rng)
    check_installed("The demo", [one for spec in studies.values() for one in needed(spec.model.spec, spec.data.spec)])
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = {name: place / f"{name}.db" for name in studies}
    accuracies: dict[str, SmoothedAccuracy] = {}
    inputs = {spec.name: study_inputs(spec) for spec in studies.values()}  # each model is loaded once
    for name, spec in studies.items():
        for suffix in ("", "-wal", "-shm"):
            paths[name].with_name(paths[name].name + suffix).unlink(missing_ok=True)
        yield f"{spec.name}: {counted(spec.data.n or 0, 'input')} × {len(spec.methods)} methods, {spec.model.spec}"
        done = run_study(spec, paths[name], engine=InProcess.on(inputs[spec.name]))
        n_labelled = n_inputs or _N_LABELLED
        accuracies[spec.name] = study_accuracy(spec, n_inputs=n_labelled, inputs=inputs[spec.name])
        yield f"  {done.n_new} explanations certified: {done.status.n_computed:,} model calls, {done.seconds:.0f} s"
    files, page = list(paths.values()), place / PAGE
    sentences = write_report(files, page, title=TITLE, n_gallery=_N_GALLERY, accuracy=accuracies, inputs=inputs)
    yield ""
    yield from sentences
    yield ""
    yield str(page)
