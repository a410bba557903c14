"""``holdfast demo``: five studies on the models that come with holdfast, and one page."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from holdfast.calls import STEADY_BATCH_SIZE
from holdfast.cli.options import paint_path
from holdfast.extras import check_installed, needed
from holdfast.inputs.data.dataset import PHOTO_GRID, PHOTOS
from holdfast.report.page import write_report
from holdfast.report.rows import study_accuracy
from holdfast.smoothing import SmoothedAccuracy
from holdfast.study import CertifySpec, DataSpec, MaskingSpec, MethodSpec, ModelSpec, MusSpec, StudySpec, run_study
from holdfast.study.local import InProcess
from holdfast.study.worker import study_inputs
from holdfast.terminal import unescaped
from holdfast.words import counted

_ANY_MODEL = ("lime", "shap", "occlusion", "random")
_WITH_GRADIENTS = ("lime", "shap", "integrated_gradients", "mfaba", "occlusion", "random")
_N_MASKS = {"lime": 300, "shap": 300}
_VOTES = MusSpec((0.5, 0.25, 0.125), n_levels=64)
_N_GALLERY, _N_LABELLED = 9, 40


def fill(parser: argparse.ArgumentParser, command: str) -> None:
    """Say what the command does, and add its options."""
    parser.description = (
        "Explain and certify inputs of five bundled models (digits, moods of sentences, tumours), and write one page "
        "for the browser, FOLDER/report.html. Needs pip install 'holdfast[hf,sklearn,text]', and for photographs "
        "'holdfast[photos]'."
    )
    parser.epilog = "Example: holdfast demo --inputs 2"
    parser.add_argument(
        "--output", metavar="FOLDER", default="build/demo", help="folder of the results (default: %(default)s)"
    )
    parser.add_argument("--inputs", type=int, metavar="N", help="inputs per study (default: 16 to 60)")
    parser.add_argument(
        "--photos", action="store_true", help="also photographs, with an ImageNet network (about 10 more minutes)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the studies into files of the folder and write the page; say what is done, found, and where the page is.

    The studies start afresh: files of an earlier demo in this folder are replaced.
    """
    studies, folder = demo_studies(options.inputs, photos=options.photos), Path(options.output)
    check_installed("The demo", [name for spec in studies.values() for name in needed(spec.model.spec, spec.data.spec)])
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.db" for name in studies}
    accuracies: dict[str, SmoothedAccuracy] = {}
    inputs = {spec.name: study_inputs(spec) for spec in studies.values()}  # each model is loaded once
    for name, spec in studies.items():
        for suffix in ("", "-wal", "-shm"):
            paths[name].with_name(paths[name].name + suffix).unlink(missing_ok=True)
        size = f"{counted(spec.data.n or 0, 'input')} × {len(spec.methods)} methods"
        print(f"{spec.name}: {size}, {spec.model.spec}", flush=True)
        done = run_study(spec, paths[name], engine=InProcess(inputs=inputs[spec.name]))
        n_labelled = options.inputs or _N_LABELLED
        accuracies[spec.name] = study_accuracy(spec, n_inputs=n_labelled, inputs=inputs[spec.name])
        spent = f"{done.status.n_computed:,} model calls, {done.seconds:.0f} s"
        print(f"  {done.n_new} explanations certified: {spent}", flush=True)
    files, page = list(paths.values()), folder / "report.html"
    sentences = write_report(files, page, n_gallery=_N_GALLERY, accuracy=accuracies, inputs=inputs)
    print("", *sentences, "", sep="\n")
    print(f"Open {paint_path(str(page))} in a browser.", file=unescaped(sys.stdout), flush=True)


def demo_studies(n_inputs: int | None = None, *, photos: bool = False) -> dict[str, StudySpec]:
    """The studies of the demo by the names of their files; ``n_inputs`` of each, or as many as three minutes allow."""

    def study(name: str, model: str, data: str, n: int, radii: tuple[int, ...], methods: tuple[str, ...]) -> StudySpec:
        features = {"digits": (8, 8), "sentences": "words", "photos": PHOTO_GRID}
        texts = data == "sentences"
        return StudySpec(
            ModelSpec(f"bundled:{model}"),
            DataSpec(f"bundled:{data}", n=n_inputs or n),
            tuple(MethodSpec(method, n_samples=_N_MASKS.get(method)) for method in methods),
            masking=MaskingSpec(groups=features.get(data), fill="blur" if data == "photos" else None),
            certify=CertifySpec(radii=radii),
            mus=_VOTES,
            batch_size=8 if data == "photos" else STEADY_BATCH_SIZE,  # eight photographs fit a processor's caches
            witness=texts,  # the search for the smallest change is short where there are few features
            seed=0,
            name=name,
        )

    pixels, words, columns = (1, 2, 4, 8, 16, 32), (1, 2, 3, 4, 6, 8), (1, 2, 4, 8, 12, 16)
    patches, extra = (1, 2, 4, 8, 16), dict[str, StudySpec]()
    if photos:
        network = "efficientnet-lite0"
        extra["photos"] = study("Photographs, EfficientNet", network, "photos", len(PHOTOS), patches, _WITH_GRADIENTS)
    return {
        "digits-vit": study("Digits, vision transformer", "digits-vit", "digits", 16, pixels, _WITH_GRADIENTS),
        "digits-resnet": study("Digits, ResNet", "digits-resnet", "digits", 16, pixels, _WITH_GRADIENTS),
        "moods-roberta": study("Moods, RoBERTa", "lexicon-roberta", "sentences", 24, words, _WITH_GRADIENTS),
        "moods-vader": study("Moods, VADER", "vader", "sentences", 60, words, _ANY_MODEL),
        "tumours-forest": study("Tumours, forest", "cancer-forest", "cancer", 24, columns, _ANY_MODEL),
        **extra,
    }
