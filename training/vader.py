"""``vader``: nothing to train; how often it agrees with those who wrote the sentences is measured."""

from __future__ import annotations

from holdfast import data
from holdfast.inputs.models.bundled import load_vader
from training.box import count_correct, empty_folder, write_card


def main() -> None:
    write_card(
        empty_folder("vader"),
        kind="text",
        data="bundled:sentences",
        description="VADER: sentiment of English sentences by rules and a lexicon, from the package vaderSentiment",
        counts={"sentences": count_correct(load_vader(), data.load("bundled:sentences"))},
        made_with=("vaderSentiment",),
    )
