"""Make all bundled models anew, or the named ones: ``python -m training [digits-resnet …]``."""

from __future__ import annotations

import sys
from importlib import import_module

STEPS = (
    *("splits", "digits-resnet", "digits-vit", "digits-vit-masked", "cancer-forest", "vader", "lexicon-roberta"),
    *("cancer-linear", "efficientnet-lite0"),
)
"""In this order: models need the splits, and lexicon-roberta imitates vader."""


def main(names: list[str]) -> int:
    unknown = set(names) - set(STEPS)
    if unknown:
        print(f"Unknown: {', '.join(sorted(unknown))}. Known: {', '.join(STEPS)}.")
        return 2
    for name in [step for step in STEPS if step in names or not names]:
        import_module(f"training.{name.replace('-', '_')}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
