"""Batch normalisations folded into convolutions: where that is right, where not, and that modules stay as they are."""

from __future__ import annotations

import contextlib
import copy
import gc
import linecache
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.func import functional_call
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.utils.flop_counter import FlopCounterMode
from transformers import ResNetForImageClassification

from holdfast import certify
from holdfast.masking.image import folding
from holdfast.masking.image.folding import call_folded
from holdfast.masking.image.mask_image import mask_image
from tests.helpers.tiny_models import save_resnet

torch.set_num_threads(1)

SIZE, N_FEATURES = 12, 9
CLOSE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def small_images_are_folded_too() -> Iterator[None]:
    with patch.object(folding, "_LEAST_NUMBERS", 0):
        yield


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Grows by every convolution that is folded."""
    seen, usual = list[Any](), folding._can_fold

    def spy(norm: Any, conv: Any, images: Any) -> bool:
        can = usual(norm, conv, images)
        seen.extend([conv] if can else [])
        return can

    monkeypatch.setattr(folding, "_can_fold", spy)
    return seen


def lively(module: nn.Module, seed: int = 0) -> Any:
    """The module in evaluation mode, with weights and statistics that make every step matter."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, values in [*module.named_parameters(), *module.named_buffers()]:
            if values.is_floating_point():
                drawn = torch.randn(values.shape, generator=numbers)
                values.copy_(drawn.abs() + 0.5 if "running_var" in name else drawn)
    return module.eval()


def some_images(n: int = 8, seed: int = 0) -> Any:
    return torch.from_numpy(np.random.default_rng(seed).random((n, 3, SIZE, SIZE), dtype=np.float32))


def check_same(module: Any, folded: list[Any], n_folded: int, images: Any = None) -> None:
    """Scores are those of a plain call, and so many convolutions are folded."""
    images = some_images() if images is None else images
    with torch.inference_mode():
        folded.clear()
        scores = call_folded(module, images)
        assert len(folded) == n_folded
        wanted = module(images)
    torch.testing.assert_close(scores, wanted, rtol=0, atol=CLOSE * float(wanted.abs().max()))
    assert float((wanted.amax(dim=0) - wanted.amin(dim=0)).max()) > 100 * CLOSE * float(wanted.abs().max())


class Block(nn.Module):
    """A convolution, its normalisation and a head."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        options = {"padding": 1, "bias": False} | options
        self.conv, self.norm = nn.Conv2d(3, 6, 3, **options), nn.BatchNorm2d(6)
        self.last = nn.Linear(6, 4)

    def forward(self, images: Any) -> Any:
        return self.head(self.norm(self.conv(images)))

    def head(self, maps: Any) -> Any:
        return self.last(maps.relu().mean(dim=(2, 3)))


# -- where it is right -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"bias": True}, {"stride": 2, "padding": 0}, {"groups": 3}, {"dilation": 2, "padding": "same"}],
)
def test_a_normalisation_is_folded_into_the_convolution_before_it(options: dict[str, Any], folded: list[Any]) -> None:
    check_same(lively(Block(**options)), folded, 1)


@given(seed=st.integers(0, 10_000), eps=st.sampled_from([1e-5, 1e-3, 0.5]), n_rows=st.integers(1, 20))
def test_folded_scores_are_the_plain_ones(seed: int, eps: float, n_rows: int) -> None:
    module = lively(nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6, eps=eps), nn.ReLU(inplace=True)), seed)
    images = some_images(n_rows, seed)
    with torch.inference_mode():
        wanted = module(images)
        torch.testing.assert_close(call_folded(module, images), wanted, rtol=0, atol=CLOSE * float(wanted.abs().max()))


class InStatements(Block):
    def forward(self, images: Any) -> Any:
        maps = self.conv(images)
        maps = self.norm(maps)
        return self.head(maps)


class InMethod(Block):
    def forward(self, images: Any, scale: float = 2.0, *, shift: float = 0.5) -> Any:
        return self.head(self.maps(images) * scale + shift)

    def maps(self, images: Any) -> Any:
        return self.norm(self.conv(images))


class InBranch(Block):
    def forward(self, images: Any) -> Any:
        if len(images) > 4:
            maps = self.conv(images)
            maps = self.norm(maps)
        else:
            maps = self.norm(self.conv(images)) * 3
        return self.head(maps)


class InLists(Block):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Sequential(nn.Conv2d(3, 3, 3), nn.BatchNorm2d(3), nn.ReLU()) for _ in range(2)])

    def forward(self, images: Any) -> Any:
        for part in self.parts:
            images = part(images)
        return self.head(self.norm(self.conv(self.parts[0](images))))


class InSubclass(InStatements):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2.0

    def head(self, maps: Any) -> Any:
        return super().head(maps) * self.factor


class InRelu(Block):
    """What is rectified is the fold's own, or somebody else's."""

    def __init__(self) -> None:
        super().__init__()
        self.act, self.kept = nn.ReLU(), nn.Identity()

    def forward(self, images: Any) -> Any:
        maps = functional.relu(self.norm(self.conv(images))) + self.act(self.norm(self.conv(images)))
        shown = self.kept(images - 0.5)
        return self.head(maps + functional.relu(self.kept(shown)).mean() - shown.mean() + self.act(shown).mean())


def made_around(factor: float) -> Any:
    class Closed(Block):
        def forward(self, images: Any) -> Any:
            return self.head(self.norm(self.conv(images * factor)))

    return Closed()


WAYS: dict[str, tuple[Callable[[], Any], int]] = {
    "statements": (InStatements, 1),
    "method": (InMethod, 1),
    "branch": (InBranch, 1),
    "lists": (InLists, 4),
    "subclass": (InSubclass, 1),
    "relu": (InRelu, 2),
    "closure": (lambda: made_around(3.0), 1),
}


@pytest.mark.parametrize("way", WAYS)
def test_pairs_are_found_where_people_write_them(way: str, folded: list[Any]) -> None:
    make, n_folded = WAYS[way]
    check_same(lively(make()), folded, n_folded)


def test_a_residual_network_of_transformers_is_folded(tmp_path: Path, folded: list[Any]) -> None:
    module = lively(ResNetForImageClassification.from_pretrained(save_resnet(tmp_path)))
    n_norms = sum(isinstance(part, nn.BatchNorm2d) for part in module.modules())
    images = some_images(200)
    with torch.inference_mode():
        scores, wanted = call_folded(module, pixel_values=images).logits, module(pixel_values=images).logits
    assert len(folded) == n_norms
    torch.testing.assert_close(scores, wanted, rtol=0, atol=CLOSE * float(wanted.abs().max()))


def test_with_large_weights_and_few_images_nothing_is_folded(folded: list[Any]) -> None:
    module = lively(nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Conv2d(3, 64, 2), nn.BatchNorm2d(64), nn.Flatten()))
    for n_rows, n_folded in ((8, 0), (64, 1)):  # 12 numbers per image, 768 weights
        check_same(module, folded, n_folded, some_images(n_rows))


def test_with_few_numbers_the_module_is_called_as_it_is(folded: list[Any]) -> None:
    with patch.object(folding, "_LEAST_NUMBERS", 8 * 3 * SIZE**2):
        for n_rows, n_folded in ((7, 0), (8, 1)):
            check_same(lively(Block()), folded, n_folded, some_images(n_rows))


# -- where it is not ---------------------------------------------------------------------------------------


class UsedTwice(Block):
    def forward(self, images: Any) -> Any:
        maps = self.conv(images)
        others = self.norm(maps)
        return self.head(others + maps)


class UsedBetween(Block):
    def forward(self, images: Any) -> Any:
        maps = self.conv(images)
        maps = self.norm(maps.clamp(-1, 1))
        return self.head(maps)


class ChangedBetween(Block):
    def forward(self, images: Any) -> Any:
        maps = self.conv(images)
        maps += 1
        maps = self.norm(maps)
        return self.head(maps)


class Swallowing(Block):
    def forward(self, images: Any) -> Any:
        try:
            maps = self.conv(images)
            maps = self.norm(maps)
            if len(maps) > 2:
                maps = self.conv(images[:, :, ::2])
                maps = self.norm(maps)
                raise ValueError
        except ValueError:
            maps = maps * 2
        with contextlib.suppress(ValueError):
            maps = self.conv(images) + maps.mean()
            maps = self.norm(maps)
        return self.head(maps)


class Film(Block):
    """Numbers of the normalisation that depend on the images, written past torch's count of changes."""

    def forward(self, images: Any) -> Any:
        maps = self.conv(images)
        self.norm.bias.data.copy_(images.mean(dim=(0, 2, 3)).repeat(2) * 10)
        maps = self.norm(maps)
        return self.head(maps)


class Inner(Block):
    def forward(self, images: Any) -> Any:
        maps = lambda: self.norm(self.conv(images))  # noqa: E731
        return self.head(maps())


class Building(Block):
    """Makes its parts when they are needed, one after the other."""

    def forward(self, images: Any) -> Any:
        self.norm = self.between = None
        maps = self.make(images)
        maps = self.between(maps)
        return self.head(maps)

    def make(self, images: Any) -> Any:
        self.between = lively(nn.BatchNorm2d(6))
        return self.conv(images)


class Looked(Block):
    """A normalisation that is counted whenever it is looked up."""

    @property
    def counted(self) -> Any:
        self.n_looks = vars(self).get("n_looks", 0) + 1
        return self.norm

    def forward(self, images: Any) -> Any:
        maps = self.conv(images)
        maps = self.counted(maps)
        return self.head(maps) * self.n_looks / self.n_looks


class Local(Block):
    def forward(self, images: Any) -> Any:
        maps = self.norm(self.conv(images))
        return self.head(maps) * len(locals())


class Keywords(Block):
    def forward(self, images: Any) -> Any:
        return self.head(self.norm(input=self.conv(input=images)))


class Decorated(Block):
    @torch.no_grad()
    def forward(self, images: Any) -> Any:
        return super().forward(images)


@pytest.mark.parametrize(
    "kind",
    [UsedTwice, UsedBetween, ChangedBetween, Swallowing, Film, Inner, Building, Looked, Local, Keywords, Decorated],
    ids=lambda k: k.__name__,
)
def test_what_is_written_otherwise_is_computed_as_it_is_written(kind: Any, folded: list[Any]) -> None:
    check_same(lively(kind()), folded, 0)


def test_what_is_looked_up_is_looked_up_once() -> None:
    module = lively(Looked())
    with torch.inference_mode():
        call_folded(module, some_images())
    assert module.n_looks == 1


class Own(nn.BatchNorm2d):
    def forward(self, images: Any) -> Any:
        return super().forward(images) * 2


def change_class(block: Any) -> None:
    block.norm.__class__ = Own


def change_padding(block: Any) -> None:
    block.conv.padding_mode, block.conv._reversed_padding_repeated_twice = "circular", [1, 1, 1, 1]


def change_convolution(block: Any) -> None:
    usual = block.conv._conv_forward
    block.conv._conv_forward = lambda images, weights, bias: -usual(images, weights, bias)


def change_forward(block: Any) -> None:
    usual = block.norm.forward
    block.norm.forward = lambda images: -usual(images)


def train(block: Any) -> None:
    block.norm.train()
    block.norm.momentum = 0.0


def parametrize(block: Any) -> None:
    parametrizations.weight_norm(block.conv)


def hook_part(block: Any) -> None:
    block.conv.register_forward_hook(lambda _part, _inputs, output: output * 2)


def hook_before(block: Any) -> None:
    block.norm.register_forward_pre_hook(lambda _part, inputs: (inputs[0] * 2,))


def hook_whole(block: Any) -> None:
    block.register_forward_hook(lambda _part, _inputs, output: output * 2)


def wrap_and_hook(block: Any) -> None:
    block.conv = nn.Sequential(block.conv)
    block.conv.register_forward_hook(lambda _part, _inputs, output: output.mul_(-2))


def unregister(block: Any) -> None:
    scale = -block.norm.weight.detach()
    del block.norm.weight
    block.norm.weight = scale


def without_scale(block: Any) -> None:
    block.norm.weight = block.norm.bias = None


def without_statistics(block: Any) -> None:
    block.norm.running_mean = block.norm.running_var = None


class Negated(nn.Parameter):
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, values: Any = (), fields: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            output = function(*values, **(fields or {}))
            return -output if function is torch.conv2d else output


def compute_otherwise(block: Any) -> None:
    block.conv.weight = Negated(block.conv.weight.data)


@pytest.mark.parametrize(
    "change",
    [
        change_class,
        change_padding,
        change_convolution,
        change_forward,
        train,
        parametrize,
        hook_part,
        hook_before,
        hook_whole,
        wrap_and_hook,
        unregister,
        without_scale,
        without_statistics,
        compute_otherwise,
    ],
)
def test_what_is_unusual_is_computed_as_ever(change: Callable[[Any], None], folded: list[Any]) -> None:
    module = lively(Block())
    check_same(module, folded, 1)
    change(module)
    check_same(module, folded, 0)


def change_data(block: Any) -> None:
    block.conv.weight.data.mul_(-1)


def change_statistics(block: Any) -> None:
    block.norm.running_mean.data.add_(1)


def change_eps(block: Any) -> None:
    block.norm.eps = 3.0


def replace_weights(block: Any) -> None:
    block.norm.weight = nn.Parameter(torch.linspace(-1, 1, 6))


def replace_parts(block: Any) -> None:
    block.conv, block.norm = lively(nn.Conv2d(3, 6, 3, padding=1), 5), lively(nn.BatchNorm2d(6), 5)


def replace_forward(block: Any) -> None:
    block.__class__ = InMethod


@pytest.mark.parametrize(
    "change", [change_data, change_statistics, change_eps, replace_weights, replace_parts, replace_forward]
)
def test_what_its_owner_changes_counts_at_once(change: Callable[[Any], None], folded: list[Any]) -> None:
    module = lively(Block())
    check_same(module, folded, 1)
    with torch.inference_mode():
        before = module(some_images())
        change(module)
        assert float((module(some_images()) - before).abs().max()) > 1000 * CLOSE
    check_same(module, folded, 1)


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function: Any, _types: Any, values: Any = (), fields: Any = None) -> Any:
        output = function(*values, **(fields or {}))
        return output * 2 if function is functional.batch_norm else output


def patched(owner: Any, name: str) -> Any:
    """Another function in place of one of torch, which gives twice as much."""
    usual = getattr(owner, name)
    return patch.object(owner, name, lambda *values, **fields: usual(*values, **fields) * 2)


CHANGES: dict[str, Callable[[], Any]] = {
    "normalisations": lambda: patched(nn.BatchNorm2d, "forward"),
    "convolutions": lambda: patched(nn.Conv2d, "_conv_forward"),
    "function of normalisations": lambda: patched(functional, "batch_norm"),
    "function of convolutions": lambda: patched(functional, "conv2d"),
    "function of rectifiers": lambda: patched(functional, "relu"),
    "calls": lambda: patched(nn.Module, "__call__"),
    "mode of functions": Doubling,
    "mode of operations": lambda: FlopCounterMode(display=False),
    "hooks everywhere": lambda: contextlib.closing(HookEverywhere()),
    "mixed precision": lambda: torch.autocast("cpu", torch.bfloat16),
    "gradients": lambda: torch.inference_mode(False),
}


class HookEverywhere:
    def __init__(self) -> None:
        self._handle = nn.modules.module.register_module_forward_hook(lambda _part, _inputs, output: output * 2)

    def close(self) -> None:
        self._handle.remove()


@pytest.mark.parametrize("change", CHANGES)
def test_what_somebody_makes_of_torch_is_followed(change: str, folded: list[Any]) -> None:
    module = lively(Block())
    check_same(module, folded, 1)
    folded.clear()
    with torch.inference_mode(), CHANGES[change](), torch.set_grad_enabled(change == "gradients"):
        scores, wanted = call_folded(module, some_images()), module(some_images())
    assert folded == []
    torch.testing.assert_close(scores, wanted)


def test_half_precision_is_computed_as_ever(folded: list[Any]) -> None:
    module = lively(Block()).bfloat16()
    with torch.inference_mode():
        images = some_images().bfloat16()
        torch.testing.assert_close(call_folded(module, images), module(images))
    assert folded == []


@pytest.mark.parametrize("values", [torch.zeros(1), torch.zeros(12)])
def test_numbers_that_do_not_fit_are_refused_as_ever(values: Any) -> None:
    module = lively(Block())
    with torch.inference_mode():
        call_folded(module, some_images())
        module.norm.running_mean.data = values
        with pytest.raises(RuntimeError, match="running_mean should contain"):
            call_folded(module, some_images())


def test_weights_for_one_call_are_those_of_that_call(folded: list[Any]) -> None:
    class Calling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.other = Block(), dict[str, Any]()

        def forward(self, images: Any) -> Any:
            return functional_call(self.net, self.other, (images,)) + self.net(images)

    module = lively(Calling())
    check_same(module, folded, 1)
    module.other = {"norm.weight": torch.linspace(-3, 3, 6)}
    check_same(module, folded, 1)


# -- that only what runs is compiled again ---------------------------------------------------------------------

SOURCE = """
import torch
from torch import nn
from torch.nn import functional as F

FACTOR = 1.0

class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.__secret = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Identity()

    def forward(self, images):
        return F.relu(self.norm(self.conv(images))).mean(dim=(2, 3)) * FACTOR

    def mangled(self, images):
        return self.__secret(self.norm(self.conv(images))).mean(dim=(2, 3))
"""


def written(tmp_path: Path, source: str = SOURCE) -> dict[str, Any]:
    path, names = tmp_path / "written.py", {"__name__": "written"}
    path.write_text(source)
    exec(compile(source, str(path), "exec"), names)
    return names


def test_a_source_that_was_changed_since_is_not_what_runs(tmp_path: Path, folded: list[Any]) -> None:
    names = written(tmp_path)
    check_same(lively(names["Written"]()), folded, 1)
    names = written(tmp_path)
    others = [SOURCE.replace(") * FACTOR", ") * -FACTOR"), SOURCE.replace("* FACTOR", "* FACTOR or print('here')")]
    others += [SOURCE.replace("dim=(2, 3)) * F", "dim=(2, 2 + 1)) * F"), "\n" + SOURCE, "x = (", "", "(" * 10_000]
    for other in others:
        names = written(tmp_path)
        (tmp_path / "written.py").write_text(other)
        linecache.checkcache()
        check_same(lively(names["Written"]()), folded, int("2 + 1" in other))  # which is the same code


def test_globals_and_names_of_classes_are_those_of_the_moment(tmp_path: Path, folded: list[Any]) -> None:
    names = written(tmp_path)
    module = lively(names["Written"]())
    check_same(module, folded, 1)
    names["FACTOR"] = -7.0
    check_same(module, folded, 1)
    type(module).forward = type(module).mangled
    check_same(module, folded, 0)  # which names a class has to itself is not known outside of it


def test_functions_without_a_source_run_as_they_are(folded: list[Any]) -> None:
    names: dict[str, Any] = {"__name__": "nowhere"}
    exec(SOURCE, names)
    check_same(lively(names["Written"]()), folded, 0)


def test_errors_are_those_of_the_module_raised_once_and_in_its_lines() -> None:
    class Failing(Block):
        n_calls = 0

        def forward(self, images: Any) -> Any:
            self.n_calls += 1
            maps = self.norm(self.conv(images))
            raise ValueError(f"the module says so of {len(maps)}")

    module = lively(Failing())
    with torch.inference_mode(), pytest.raises(ValueError, match="the module says so of 8") as caught:
        call_folded(module, some_images())
    assert module.n_calls == 1
    line = Path(caught.traceback[-1].path).read_text().splitlines()[caught.traceback[-1].lineno]
    assert "raise ValueError" in line


HOSTILE = """
from __future__ import annotations
import torch
from torch import nn
from torch.nn.functional import relu
import typing
if typing.TYPE_CHECKING:
    from nowhere import OnlyForTypes

class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.table = {0: nn.Identity(), 1: lambda i: i + 10}

class Static(Base):
    class Act(nn.Module):
        @staticmethod
        def forward(x):
            return x * x.sigmoid()
    def __init__(self):
        super().__init__()
        self.act = Static.Act()
    def forward(self, x):
        return self.act(self.norm(self.conv(x)))

class Traced(Base):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.trace(nn.Sequential(nn.Conv2d(3, 3, 1), nn.ReLU()).eval(), torch.zeros(1, 3, 4, 4))
    def forward(self, x):
        return self.part(self.norm(self.conv(x)))

class Named(Base):
    def forward(self, x):
        return self.head(self.conv(x), part=2, values=3)
    def head(self, x, part, values):
        return self.norm(x) * part * values

class LikeAGlobal(Base):
    def forward(self, x):
        return self.relu(x)
    def relu(self, x):
        return relu(self.norm(self.conv(x)))

class Annotated(Base):
    def forward(self, x):
        def twice(y: OnlyForTypes) -> OnlyForTypes:
            return y * 2
        return twice(self.norm(self.conv(x)))

class Mangled(Base):
    def forward(self, x):
        return self.head(x)
    def head(self, x, *, __flag=3):
        return self.norm(self.conv(x)) * __flag

class Recursive(Base):
    def forward(self, x):
        return self.norm(self.conv(x)) * (1 + self.walk(400))
    def walk(self, n):
        return 0 if n == 0 else self.walk(n - 1) + 1

class Peeking(Base):
    def forward(self, x):
        self.peek = lambda: x
        x = self.conv(x)
        x = self.report(x)
        return x
    def report(self, x):
        return x + self.peek()

class Indexed(Base):
    def forward(self, x):
        i = 0
        i = self.pick(i)
        i = self.table[i](i)
        return self.norm(self.conv(x)) * i
    def pick(self, i):
        return 1

class Impl(Base):
    def _call_impl(self, *values, **fields):
        return super()._call_impl(*values, **fields) * 5
    __call__ = nn.Module.__call__
    def forward(self, x):
        return self.norm(self.conv(x))

class Editing(Base):
    class Adds(nn.Module):
        def forward(self, x):
            return x + len(self.__dict__.get("seen", ()))
    def __init__(self):
        super().__init__()
        self.line = nn.Sequential(self.conv, self.norm, Editing.Adds())
    def forward(self, x):
        return self.line(x)
"""


@pytest.mark.parametrize(
    "name",
    [line.split()[1].split("(")[0] for line in HOSTILE.splitlines() if line.startswith("class ") and "Base)" in line],
)
def test_modules_of_every_style_compute_as_they_are_written(name: str, tmp_path: Path, folded: list[Any]) -> None:
    with pytest.warns() if name == "Traced" else contextlib.nullcontext():
        module = lively(written(tmp_path, HOSTILE)[name]())
    with torch.inference_mode():
        scores, wanted = call_folded(module, some_images()), module(some_images())
    torch.testing.assert_close(scores, wanted, rtol=0, atol=CLOSE * float(wanted.abs().max()))


def shadow_weight(block: Any) -> None:
    block.conv.__dict__["weight"] = -block.conv._parameters["weight"]


def set_bias_again(block: Any) -> None:
    del block.conv.bias
    block.conv.bias = torch.arange(6.0)


@pytest.mark.parametrize("change", [shadow_weight, set_bias_again])
def test_numbers_that_stand_elsewhere_count_as_they_do(change: Callable[[Any], None], folded: list[Any]) -> None:
    module = lively(Block(bias=True))
    change(module)
    check_same(module, folded, 0)


def test_hooks_that_begin_inside_a_call_are_called() -> None:
    class Hooking(Block):
        def forward(self, images: Any) -> Any:
            handle = nn.modules.module.register_module_forward_hook(lambda part, *_values: seen.append(type(part)))
            maps = self.norm(self.conv(images))
            handle.remove()
            return self.head(maps)

    seen: list[Any] = []
    module = lively(Hooking())
    with torch.inference_mode():
        call_folded(module, some_images())
        assert seen == [nn.Conv2d, nn.BatchNorm2d]


# -- that the module stays as it is --------------------------------------------------------------------------


def test_a_module_is_itself_while_it_is_called(folded: list[Any]) -> None:
    class Looking(Block):
        def forward(self, images: Any) -> Any:
            self.n_calls += 1
            self.seen = self
            self.__dict__["parts"] = [self.conv, self.norm]
            if self.late is None:
                self.late = nn.Linear(4, 4)
            found.append(self is module and type(self.conv) is nn.Conv2d)
            found.append(copy.deepcopy(self.conv).weight.equal(self.conv.weight))
            found.append(pickle.loads(pickle.dumps(self.norm)).eps == self.norm.eps)
            del self._modules["seen"]
            return self.late(self.head(self.norm(self.conv(images))))

    found: list[bool] = []
    module = lively(Looking())
    module.n_calls, module.late = 0, None
    check_same(module, folded, 1)
    assert module.n_calls == 2
    assert len(found) == 6
    assert all(found)
    assert vars(module)["parts"] == [module.conv, module.norm]


def test_threads_share_a_module_and_its_state(folded: list[Any]) -> None:
    class Counting(Block):
        def forward(self, images: Any) -> Any:
            with self.lock:
                self.n_calls += 1
            return self.head(self.norm(self.conv(images)))

    module, images = lively(Counting()), some_images()
    module.n_calls, module.lock = 0, threading.Lock()
    with torch.inference_mode():
        wanted = call_folded(module, images)

    def ask(_number: int) -> bool:
        with torch.inference_mode():
            return torch.equal(call_folded(module, images), wanted)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(200)))
    assert module.n_calls == 201


def test_nothing_keeps_a_module_alive() -> None:
    module = lively(Block())
    conv = weakref.ref(module.conv)
    with torch.inference_mode():
        call_folded(module, some_images())
    gc.disable()
    try:
        del module
        assert conv() is None
    finally:
        gc.enable()


def test_compiled_parts_are_called_as_they_are(folded: list[Any]) -> None:
    compiled: list[Any] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    module = lively(nn.Sequential(torch.compile(lively(Block()), backend=backend), nn.Identity()))
    for _ in range(3):
        check_same(module, folded, 0)
    assert len(compiled) == 1


# -- in use --------------------------------------------------------------------------------------------------


def bind(module: Any, **options: Any) -> Any:
    picture = np.random.default_rng(0).random((SIZE, SIZE, 3), dtype=np.float32)
    return mask_image(module, picture, groups=(3, 3), **options)


@pytest.mark.parametrize(
    ("options", "n_folded"), [({}, 1), ({"batch_size": 8}, 1), ({"autocast": "bf16"}, 0), ({"compile": "eager"}, 0)]
)
def test_masked_images_are_folded_unless_precision_or_compiler_say_otherwise(
    options: dict[str, Any], n_folded: int, folded: list[Any]
) -> None:
    module, masks = lively(Block()), np.random.default_rng(0).random((8, N_FEATURES)) < 0.5
    model = bind(module, **options)
    model(masks)
    folded.clear()
    scores = model(masks)
    assert len(folded) == n_folded
    with torch.no_grad():
        wanted = module(model.batches.fresh(masks)).numpy()
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=(0.05 if not n_folded else CLOSE) * np.abs(wanted).max())


def test_certificates_are_the_same_folded_or_not() -> None:
    module = lively(Block())
    watched = copy.deepcopy(module)
    watched.conv.register_forward_hook(lambda *_call: None)  # so that nothing is folded
    selected = np.arange(N_FEATURES) < 3
    asked = {"radius": 3, "plan": "sequential", "tolerance": 0.2, "rng": 0}
    both = [certify(bind(which), selected, **asked) for which in (module, watched)]
    assert both[0].to_json() == both[1].to_json()
