"""The paper's four questions on real models, printed as findings: ``python -m benchmarks.questions``.

A CIFAR-10 ResNet-20 on 8 × 8 patches of photos and a MiniLM that reads tweets, both of the zoo. Takes about an hour on
two cores, so `make bench` leaves it out. Interrupted, it goes on where it was. Data and figures are written to
build/questions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.zoo import find_zoo, load_labelled_images
from holdfast.experiments import Request, Subject, make_subject, reproduce

FOLDER = Path("build/questions")
N_INPUTS = {"q1": 20, "q2": 40, "q3": 40, "q4": 200}
"""Photos, or texts, of each question. With 20 and more, intervals are those of the paper beside guaranteed ones."""

MIN_TOKENS = {"q3": 30}
"""The paper asks for 40, which few of these tweets have."""


def main() -> int:
    zoo = find_zoo()
    if zoo is None:
        print("There is no zoo: set HOLDFAST_ZOO to its folder, and install torch.")
        return 2
    sys.path.insert(0, str(zoo))
    for question, subject, request in requests(zoo):
        place = FOLDER / subject.name / question
        done = reproduce(question, request, output=place, workers=2, progress=sys.stderr.isatty())
        print(f"\n{subject.name}, {done.id}\n{done.findings}", flush=True)
    return 0


def requests(zoo: Path) -> Iterator[tuple[str, Subject, Request]]:
    """Each question of each model, with its inputs."""
    model, data = zoo / "minilm-tweeteval-emotion", zoo / "tweeteval" / "emotion"
    texts = make_subject(f"hf:{model}", f"tweeteval:{data}", split="val")
    for question, n in N_INPUTS.items():
        folder = write_photos(zoo, n)
        photos = make_subject("python:zoo:cifar10_resnet20", f"images:{folder}", kind="image", grid=(8, 8))
        yield question, photos, Request(subjects=(photos,), n=n)
    for question, n in N_INPUTS.items():
        yield question, texts, Request(subjects=(texts,), n=n, min_tokens=MIN_TOKENS.get(question))


def write_photos(zoo: Path, n: int) -> Path:
    """The first n photos, classes in turn, in a folder per class."""
    from PIL import Image

    folder = FOLDER / f"photos-{n}"
    images, labels = load_labelled_images(zoo, n)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        place = folder / str(label)
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.rint(image.transpose(1, 2, 0) * 255).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number:03}.png")
    return folder


if __name__ == "__main__":
    sys.exit(main())
