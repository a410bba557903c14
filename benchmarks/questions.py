"""The paper's four questions on real models, printed as findings: ``python -m benchmarks.questions [photos] [texts]``.

A CIFAR-10 ResNet-20 on 8 × 8 patches of photos and a MiniLM that reads tweets, both of the zoo. Takes an hour and more
on two cores, so `make bench` leaves it out. Interrupted, it goes on where it was. Data and figures are written to
build/questions.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.zoo import find_zoo, load_labelled_images
from holdfast.reproduce import Request, Subject, make_subject, reproduce

FOLDER = Path("build/questions")
N_INPUTS = {"q1": 20, "q2": 40, "q3": 20, "q4": 200}
"""Photos, or texts, of each question. With 20 and more, intervals are those of the paper beside guaranteed ones."""

KEEPS = {"q3": (1.0, 0.5)}
"""Of all that the paper smooths with, for time, the model itself and the most."""

N_WORKERS = 2

MIN_TOKENS = {"q3": 1}
"""The paper asks for 40, which few of these tweets have."""


def main(asked: list[str]) -> int:
    zoo = find_zoo()
    if zoo is None or not set(asked) <= set(SUBJECTS):
        print("Ask for photos, texts or nothing, with HOLDFAST_ZOO set to the folder of the zoo, and torch installed.")
        return 2
    sys.path.insert(0, str(zoo))
    for name in asked or SUBJECTS:
        for question, n in N_INPUTS.items():
            subject = SUBJECTS[name](zoo, n)
            least = MIN_TOKENS.get(question) if name == "texts" else None
            request = Request(subjects=(subject,), n=n, keep=KEEPS.get(question), min_tokens=least)
            place = FOLDER / subject.name / question
            done = reproduce(question, request, output=place, workers=N_WORKERS)
            print(f"\n{subject.name}, {done.id}\n{done.findings}", flush=True)
    return 0


def photos(zoo: Path, n: int) -> Subject:
    """The first n photos, classes in turn, and the network that tells them apart."""
    folder = write_photos(zoo, n)
    return make_subject("python:zoo:cifar10_resnet20", f"images:{folder}", kind="image", grid=(8, 8))


def texts(zoo: Path, _n: int) -> Subject:
    """All tweets, and the network that reads them."""
    model, data = zoo / "minilm-tweeteval-emotion", zoo / "tweeteval" / "emotion"
    return make_subject(f"hf:{model}", f"tweeteval:{data}", split="val")


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


SUBJECTS = {"photos": photos, "texts": texts}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
