"""Hub ids load from a hub, here one on this machine, by the same path as folders; no pickle is ever downloaded."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
from huggingface_hub import constants
from safetensors.torch import load_file

from holdfast.errors import InvalidValueError
from holdfast.inputs.models import load
from tests.helpers.tiny_hub import TinyHub, point_client_at, running
from tests.helpers.tiny_models import save_roberta, save_vit
from tests.helpers.waiting import PATIENCE

torch.set_num_threads(1)

BOT = ("SFconvertbot", "Adding `safetensors` variant of this model")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyHub]:
    """A hub that the client is set to, with a cache of its own, as HF_ENDPOINT and HF_HOME do at its import."""
    with running(TinyHub()) as served:
        point_client_at(served.endpoint, tmp_path / "cache", monkeypatch)
        yield served


def asked_for(hub: TinyHub, *endings: str) -> list[str]:
    return [path for path in hub.asked if path.endswith(endings)]


def pickled(folder: Path, source: Path) -> Path:
    """The same model, as repositories without safetensors hold it."""
    shutil.copytree(source, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    return folder


def test_a_hub_id_loads_as_its_folder_does_and_then_from_the_cache(
    hub: TinyHub, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = save_vit(tmp_path / "vit")
    (folder / "pytorch_model.bin").write_bytes(b"never downloaded")
    (folder / "training.py").write_text("raise SystemExit")
    hub.repositories["google/vit-tiny"] = {"main": folder}
    truth = load(f"hf:{folder}").fingerprint
    capfd.readouterr()
    assert load("hf:google/vit-tiny").fingerprint == truth
    assert asked_for(hub, "model.safetensors")
    assert not asked_for(hub, ".bin", ".py")
    hub.asked.clear()
    assert load("hf:google/vit-tiny").fingerprint == truth
    assert hub.asked == []
    assert capfd.readouterr() == ("", "")


def test_while_a_folder_is_read_no_request_leaves_this_machine(hub: TinyHub) -> None:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled

    from holdfast.masking.hub import offline

    with offline(), pytest.raises(OfflineModeIsEnabled):
        HfApi().model_info("google/vit-tiny")
    assert hub.asked == []
    assert constants.HF_HUB_OFFLINE is False


def test_a_hub_id_is_taken_from_the_cache_where_nothing_may_be_downloaded(hub: TinyHub, tmp_path: Path) -> None:
    hub.repositories["google/vit-tiny"] = {"main": save_vit(tmp_path / "vit")}
    with pytest.raises(
        InvalidValueError, match=r"'google/vit-tiny' is not in the local cache and may not be downloaded"
    ):
        load("hf:google/vit-tiny", download=False)
    assert hub.asked == []
    first = load("hf:google/vit-tiny")
    hub.asked.clear()
    assert load("hf:google/vit-tiny", download=False).fingerprint == first.fingerprint
    assert hub.asked == []


def test_a_revision_is_another_model(hub: TinyHub, tmp_path: Path) -> None:
    first, second = save_vit(tmp_path / "first"), save_vit(tmp_path / "second", seed=1)
    hub.repositories["google/vit-tiny"] = {"main": first, "v2": second}
    assert load("hf:google/vit-tiny", revision="v2").fingerprint == load(f"hf:{second}").fingerprint
    assert load("hf:google/vit-tiny").fingerprint == load(f"hf:{first}").fingerprint


def test_the_hubs_own_conversion_is_used_where_the_main_branch_has_only_pickles(hub: TinyHub, tmp_path: Path) -> None:
    whole = save_roberta(tmp_path / "whole")
    name = "cardiffnlp/twitter-roberta-tiny"
    hub.repositories[name] = {"main": pickled(tmp_path / "pickled", whole), "refs/pr/2": whole}
    hub.offer(name, 2, *BOT)
    assert load(f"hf:{name}").fingerprint == load(f"hf:{whole}").fingerprint
    assert not asked_for(hub, ".bin")
    hub.asked.clear()
    assert load(f"hf:{name}").fingerprint == load(f"hf:{whole}").fingerprint
    assert not asked_for(hub, ".safetensors")


def test_a_strangers_conversion_is_not_used(hub: TinyHub, tmp_path: Path) -> None:
    whole = save_roberta(tmp_path / "whole")
    name = "cardiffnlp/twitter-roberta-tiny"
    hub.repositories[name] = {"main": pickled(tmp_path / "pickled", whole), "refs/pr/3": whole}
    hub.offer(name, 3, "stranger", BOT[1])
    with pytest.raises(InvalidValueError, match=rf"{name}' must have .*; it has only pytorch_model\.bin.*Convert"):
        load(f"hf:{name}")
    assert load(f"hf:{name}", revision="refs/pr/3").fingerprint == load(f"hf:{whole}").fingerprint


@pytest.mark.parametrize("name", ["google/none", "none"])
def test_ids_that_are_not_there_are_named(hub: TinyHub, name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}' is not a folder, not in the local cache and not reachable"):
        load(f"hf:{name}")
    assert hub.asked


PAPER = (
    "google/vit-base-patch16-224",
    "microsoft/resnet-50",
    "microsoft/resnet-18",
    *(
        f"cardiffnlp/twitter-roberta-base-{task}"
        for task in ("emoji", "emotion", "hate", "irony", "offensive", "sentiment")
    ),
)


@pytest.mark.parametrize("name", PAPER)
def test_offline_the_papers_models_are_named_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    point_client_at("http://127.0.0.1:9", tmp_path, monkeypatch)
    started = time.monotonic()
    with pytest.raises(InvalidValueError, match=f"{name}' is not a folder.*load the folder with 'hf:<folder>'"):
        load(f"hf:{name}")
    assert time.monotonic() - started < PATIENCE  # and not after many attempts
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["a b", "google/vit?", "--", "x" * 200])
def test_names_that_are_no_ids_are_refused_without_asking(hub: TinyHub, name: str) -> None:
    with pytest.raises(InvalidValueError, match=re.escape(name)):
        load(f"hf:{name}")
    assert hub.asked == []
