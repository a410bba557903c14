"""Can a network be trained to have stable explanations? A small experiment on handwritten digits.

The paper leaves this question to future work. Four trainings of the same small network are compared:

- plain: the usual loss on whole images;
- masked: the same loss on images of which random pixels are hidden;
- penalty: the usual loss, plus a penalty for predicting differently on a random explanation α and on α′ ⊇ α;
- both: masked, plus the penalty.

Each is trained with several seeds. On test images that training never saw, it is measured how often the class is right,
how often an explanation alone gets the prediction of the whole image, and how stable it is: the rate τ at which its
prediction survives up to r revealed pixels, certified image by image. Explanations are a quarter of the pixels: those
that occlusion ranks highest, and random ones, which are what the penalty is about. A network that predicts one class
for anything with few pixels is perfectly stable and useless, which is why the second figure stands beside the third.

    python examples/stability_regularized_training.py            # a bit more than two minutes of one core
    python examples/stability_regularized_training.py --quick    # seconds; too small to conclude anything from
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax

import holdfast as hf
from holdfast.bounds import betting_mean, certified_share

SIDE, N_PIXELS, N_SHOWN = 8, 64, 16
MEAN, STD = 0.3, 0.375
"""Pixels are normalised so that 0, which hidden pixels become, is a middle grey."""

PENALTY, MOST_ADDED = 1.0, 16
EXPLANATIONS = ("occlusion", "random")
RADII = (1, 4, 8, 16)
RADIUS, MIN_RATE, LEVEL = 8, 0.9, 0.02
"""The question of the data-set guarantee, fixed before anything was run."""

CONFIDENCE = 0.95

Loss = Callable[[nn.Module, Tensor, Tensor, Generator], Tensor]


@dataclass(frozen=True)
class Scale:
    """How large the experiment is."""

    n_seeds: int
    n_epochs: int
    n_images: int


FULL, QUICK = Scale(n_seeds=3, n_epochs=30, n_images=100), Scale(n_seeds=1, n_epochs=2, n_images=4)


# -- training ---------------------------------------------------------------------------------------


def make_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 16, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def plain(network: nn.Module, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
    return cross_entropy(network(images), labels)


def masked(network: nn.Module, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
    """The share of pixels that stay is drawn for each image, from a tenth to all."""
    share = 0.1 + 0.9 * torch.rand(len(images), 1, generator=generator)
    shown = torch.rand(len(images), N_PIXELS, generator=generator) < share
    return cross_entropy(network(hide(images, shown)), labels)


def with_penalty(loss: Loss, network: nn.Module, images: Tensor, labels: Tensor, generator: Generator) -> Tensor:
    return loss(network, images, labels, generator) + PENALTY * disagreement(network, images, generator)


def disagreement(network: nn.Module, images: Tensor, generator: Generator) -> Tensor:
    """How differently a random α of a quarter of the pixels and a random α′ with up to 16 more are predicted.

    Symmetric Kullback-Leibler divergence: what τ counts, made differentiable.
    """
    order = torch.rand(len(images), N_PIXELS, generator=generator).argsort(dim=1).argsort(dim=1)
    n_added = torch.randint(1, MOST_ADDED + 1, (len(images), 1), generator=generator)
    scores = network(torch.cat([hide(images, order < N_SHOWN), hide(images, order < N_SHOWN + n_added)]))
    few, more = log_softmax(scores, dim=1).chunk(2)
    return (divergence(few, more) + divergence(more, few)) / 2


def divergence(first: Tensor, second: Tensor) -> Tensor:
    return kl_div(first, second, reduction="batchmean", log_target=True)


def hide(images: Tensor, shown: Tensor) -> Tensor:
    return images * shown.view(-1, 1, SIDE, SIDE)


TRAININGS: dict[str, Loss] = {
    "plain": plain,
    "masked": masked,
    "penalty": partial(with_penalty, plain),
    "both": partial(with_penalty, masked),
}


def train(loss: Loss, *, seed: int, n_epochs: int) -> nn.Module:
    torch.manual_seed(seed)
    network, generator = make_network(), Generator().manual_seed(seed)
    images, labels = load("train")
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=0.01)
    for _ in range(n_epochs):
        for chosen in torch.randperm(len(labels), generator=generator).split(64):
            optimizer.zero_grad()
            loss(network, images[chosen], labels[chosen], generator).backward()
            optimizer.step()
    return network.eval()


def load(split: str) -> tuple[Tensor, Tensor]:
    data = hf.data.load("bundled:digits", split=split)
    pixels = torch.tensor(np.asarray(data.inputs)[..., 0] / 255, dtype=torch.float32)
    return ((pixels - MEAN) / STD)[:, None], torch.tensor(np.asarray(data.labels))


# -- measuring --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """One network's explanations of the first test images by one method.

    ``rates`` are unbiased estimates of τ, (n_images, number of radii); ``certified`` says for which images a one-sided
    test certifies τ ≥ 0.9 at radius 8.
    """

    consistent: np.ndarray
    rates: np.ndarray
    certified: np.ndarray


@dataclass(frozen=True)
class Network:
    """One trained network: whether it is right on each test image, and its explanations by method."""

    correct: np.ndarray
    explained: dict[str, Measured]


def measure(network: nn.Module, *, n_images: int) -> Network:
    images, labels = load("test")
    with torch.no_grad():
        correct = (network(images).argmax(dim=1) == labels).numpy()
    chosen = images[:n_images]
    return Network(correct, {method: measure_method(network, method, chosen) for method in EXPLANATIONS})


def measure_method(network: nn.Module, method: str, images: Tensor) -> Measured:
    found = [measure_one(network, method, image, rng=i) for i, image in enumerate(images)]
    return Measured(*(np.array(column) for column in zip(*found, strict=True)))


def measure_one(network: nn.Module, method: str, image: Tensor, *, rng: int) -> tuple[bool, list[float], bool]:
    model = hf.Evaluator(hf.mask_image(network, image, groups=(SIDE, SIDE), fill=0.0))
    selected = hf.top(hf.attribute(model, method, rng=rng), N_SHOWN)
    curve = hf.certify_radii(model, selected, radii=RADII, check_determinism=False, rng=rng)
    test = hf.certified_radius(
        model, selected, min_rate=MIN_RATE, confidence=1 - LEVEL, radii=[RADIUS], check_determinism=False, rng=rng
    )
    rates = [unbiased(one) for one in curve]
    return curve[RADII[0]].consistent, rates, test.radius == RADIUS


def unbiased(one: hf.Certificate) -> float:
    if one.rate_unbiased is None:  # so for rates at the worst size, of which no mean is taken here
        raise ValueError(f"The rate at radius {one.radius} has no unbiased estimate.")
    return one.rate_unbiased


# -- telling ----------------------------------------------------------------------------------------

Found = dict[str, list[Network]]
"""The networks of each training."""


def correct(networks: list[Network]) -> np.ndarray:
    """Per test image, the share of the networks that are right."""
    return np.mean([one.correct for one in networks], axis=0)


def average(networks: list[Network], method: str, name: str) -> np.ndarray:
    """Per explained image, the mean over the networks."""
    return np.mean([getattr(one.explained[method], name) for one in networks], axis=0)


def tell(found: Found) -> list[str]:
    """Tables with intervals, and what they show."""
    lines = ["accuracy on test images"]
    lines += [f"  {name:<9}{cells(correct(networks)[:, None])}" for name, networks in found.items()]
    for method in EXPLANATIONS:
        lines += ["", *tell_method(found, method)]
    return [*lines, "", "against plain training, image by image", *tell_differences(found)]


def tell_method(found: Found, method: str) -> list[str]:
    titles = ["consistent", *(f"τ at r = {radius}" for radius in RADII), f"τ ≥ {MIN_RATE} at r = {RADIUS}, at least"]
    lines = [f"explanations by {method}", " " * 11 + "".join(f"{title:<22}" for title in titles)]
    for name, networks in found.items():
        columns = np.column_stack([average(networks, method, "consistent"), average(networks, method, "rates")])
        shares = " ".join(f"{guaranteed_share(one.explained[method]):.0%}" for one in networks)
        lines.append(f"  {name:<9}{cells(columns)}{shares} of digits")
    return lines


def cells(columns: np.ndarray) -> str:
    intervals = betting_mean(columns, confidence=CONFIDENCE)
    told = zip(columns.mean(axis=0), intervals, strict=True)
    return "".join(f"{f'{mean:.3f} [{low:.3f}, {high:.3f}]':<22}" for mean, (low, high) in told)


def guaranteed_share(one: Measured) -> float:
    return certified_share(int(one.certified.sum()), len(one.certified), level=LEVEL, confidence=CONFIDENCE)


def tell_differences(found: Found) -> list[str]:
    at = RADII.index(RADIUS)
    lines = []
    for name in (one for one in found if one != "plain"):
        here, there = found[name], found["plain"]
        lines.append(f"  {name:<9}{'accuracy':<25}{verdict(correct(here) - correct(there))}")
        for method in EXPLANATIONS:
            alone = average(here, method, "consistent") - average(there, method, "consistent")
            rates = average(here, method, "rates") - average(there, method, "rates")
            lines.append(f"  {name:<9}{f'{method}, consistent':<25}{verdict(alone)}")
            lines.append(f"  {name:<9}{f'{method}, τ at r = {RADIUS}':<25}{verdict(rates[:, at])}")
    return lines


def verdict(differences: np.ndarray) -> str:
    """The mean difference and what its guaranteed interval allows to say."""
    [(low, high)] = betting_mean(differences, confidence=CONFIDENCE, low=-1.0, high=1.0)
    word = "higher" if low > 0 else "lower" if high < 0 else "cannot be told apart"
    return f"{differences.mean():+.3f} [{low:+.3f}, {high:+.3f}]  {word}"


FOOT = (
    f"Intervals: guaranteed at confidence {CONFIDENCE} each, for digits such as these and the average of exactly these "
    "networks.\nOther seeds give other networks; the spread between them is not in the intervals. Nothing here says "
    "that an explanation is right."
)


def run(scale: Scale, *, watch: Callable[[str], None] = print) -> Found:
    """Train and measure every network."""
    torch.set_num_threads(1)
    found: Found = {}
    for name, loss in TRAININGS.items():
        start = time.perf_counter()
        networks = [train(loss, seed=seed, n_epochs=scale.n_epochs) for seed in range(scale.n_seeds)]
        found[name] = [measure(network, n_images=scale.n_images) for network in networks]
        watch(f"{name}: {scale.n_seeds} trained and measured in {time.perf_counter() - start:.0f} s")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds; too small to conclude anything from")
    scale = QUICK if parser.parse_args().quick else FULL
    print("\n".join(["", *tell(run(scale)), "", FOOT]))


if __name__ == "__main__":
    main()
