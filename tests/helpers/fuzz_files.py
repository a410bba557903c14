"""Files of every kind that holdfast reads, whole; what reads them; and ways to spoil them."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import holdfast as hf
from holdfast import data, models, study
from holdfast.cli.single import read_numbers
from tests.helpers.fakes import score_table
from tests.helpers.fuzz_cases import context
from tests.helpers.rooms import public_object
from tests.helpers.study_support import TRUST, make_spec, write_texts

SELECTED = np.array([True, True, False, False, False, False])


@dataclass(frozen=True)
class Format:
    """A kind of file: what it is called, a whole one, and what reads and uses it.

    ``slow`` formats take long to read, and get fewer cases.
    """

    name: str
    make: Callable[[], bytes]
    read: Callable[[Path], Any]
    slow: bool = False


# -- results as JSON --------------------------------------------------------------------------------


RESULTS = {
    "Attribution",
    "Certificate",
    "CitationCertificate",
    "Comparison",
    "Difference",
    "FillSensitivity",
    "HardCertificate",
    "MeanCurve",
    "ProbabilityCurve",
}
RESULTS |= {"RadiusCertificate", "RadiusStep", "Recheck", "Reexplanation", "SizeStep", "SmoothedAccuracy"}
RESULTS |= {"StabilityBracket", "StabilityCurve", "StableSelection", "Witness", "DataSetGuarantee", "DifferenceAt"}
RESULTS |= {"GroupSummary", "ItemResult", "MeanAt", "MusSummary", "PairedDifference", "PlannedCost", "StudyPlan"}
RESULTS |= {"StudySummary", "TrustedExplanation", "TrustedExplanations", "Selector", "MethodSize", "StudyCalibration"}
"""What can be read from JSON, of ``holdfast`` and of ``holdfast.study``."""


@cache
def results() -> dict[str, Any]:
    """One result of every kind that can be read back."""
    model = score_table(6)
    curve = hf.certify_radii(model, SELECTED, radii=[1, 2], rng=0)
    radius = hf.certified_radius(model, SELECTED, min_rate=0.6, confidence=0.8, rng=0)
    comparison = hf.compare(model, {"a": SELECTED, "b": ~SELECTED}, [1], tolerance=0.2, rng=0)
    scores = hf.attribute(model, "occlusion")
    certificate = hf.certify(model, SELECTED, radius=2, rng=0)
    stable = hf.stabilize(model, scores, min_rate=0.6, radius=1, max_draws=60, rng=0)
    made = [certificate, curve, radius, *radius.trail[:1], comparison, *comparison.differences[:1], scores, stable]
    made += [*stable.trail[:1], hf.certify_hard(model, SELECTED, radius=2, rng=0), hf.recheck(model, certificate)]
    made += [
        hf.certify_mus(model, SELECTED, keep_probability=0.25, n_levels=8, rng=0),
        hf.find_witness(model, SELECTED),
    ]
    made += [hf.certify_probabilities(model, SELECTED, probabilities=[0.2, 0.7], rng=0)]
    made += [hf.reexplain(model, "lime", radius=1, n_repeats=2, n_samples=30, rng=0)]
    made += [hf.calibrate([model] * 4, [scores] * 4, radius=1, min_rate=0.3, share=0.4, confidence=0.8, rng=0)]
    made += [hf.certify_citations(context(), [2], rng=0)]
    made += [hf.stability_bracket(model, SELECTED, max_radius=3, rng=0)]
    made += [hf.mean_curve([lambda: (model, SELECTED)] * 3, radii=[1, 2], half_width=0.3, rng=0)]
    made += [hf.smoothing.SmoothedAccuracy((1.0, 0.5), (3, 2), 4, 8, 0.9, 64, 0)]
    made += [hf.fill_sensitivity(lambda fill: score_table(6, seed=int(fill)), SELECTED, [0.0, 1.0], radius=1, rng=0)]
    made += _of_study()
    return {type(one).__name__: one for one in made}


def _of_study() -> list[Any]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        spec = make_spec(write_texts(Path(folder) / "texts", 3))
        path = Path(folder) / "study.db"
        study.run_study(spec, path)
        summary = study.summarize_study(path, n_resamples=20)
        group, difference = summary.groups[0], summary.differences[0]
        sure = study.study_guarantee(
            path, method="lime", radius=1, min_rate=0.5, top_fraction=0.25, keep_probability=1.0, trust=TRUST
        )
        calibration = study.calibrate_study(path, min_rate=0.2, share=0.3, confidence=0.8)
        trusted = study.trusted_explanations(path, radius=1, min_rate=0.3, trust=TRUST)
        with study.Store(path) as store:
            item = next(store.results())
        plan = study.plan_study(spec, timed=False)
    return [
        summary,
        group,
        group.soft[0],
        group.mus[0],
        difference,
        difference.rows[0],
        sure,
        calibration,
        next(iter(calibration)),
        trusted,
        next(iter(trusted)),
        item,
        plan,
        plan.costs[0],
    ]


def use(value: Any) -> str:
    """What people do with a result they have read."""
    assert type(value).from_json(value.to_json()) == value
    return str(value) + repr(value) + str(getattr(value, "_repr_html_", str)())


def of_result(name: str) -> Format:
    """A result of this kind, as ``to_json`` writes it."""

    def read(path: Path) -> str:
        kind = getattr(study, name) if name in study.__all__ else public_object(name)
        return use(kind.from_json(path.read_text(encoding="utf-8", errors="surrogateescape")))

    return Format(f"{name}.json", lambda: results()[name].to_json().encode(), read)


# -- studies, scores, data --------------------------------------------------------------------------


@cache
def store_bytes() -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        spec = make_spec(write_texts(Path(folder) / "texts", 2))
        study.run_study(spec, Path(folder) / "study.db")
        return (Path(folder) / "study.db").read_bytes()


def read_store(path: Path) -> None:
    """Status, results and export of a file of results, each of which may find the damage."""
    study.study_status(path)
    with study.Store(path) as store:
        store.spec, store.keys(), store.digests(), store.names(), store.listing()
        list(store.results())
    study.export_study(path, path.with_suffix(".csv"))
    study.summarize_study(path, n_resamples=5)


def study_toml() -> bytes:
    from holdfast.study.spec import commented_example

    return commented_example().encode()


def saved_array(values: Any, **named: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **named) if named else np.save(buffer, values)
    return buffer.getvalue()


def as_scores(path: Path) -> Any:
    return hf.from_array(path)


def table_text() -> bytes:
    return b"age,name,label\n1,a,yes\n2.5,b,no\n,c,yes\n"


def table_parquet() -> bytes:
    import pandas

    buffer = io.BytesIO()
    pandas.read_csv(io.BytesIO(table_text())).to_parquet(buffer)
    return buffer.getvalue()


def read_table(path: Path) -> Any:
    found = data.load(f"table:{path}", target="label")
    return [found.inputs[i] for i in range(len(found))]


def context_lines() -> bytes:
    whole = {"id": "a", "question": "How tall?", "passages": ["It rains.", "84 m"], "cited": [2], "answer": "84 m"}
    lines = [whole, whole | {"id": 2, "cited": [False, True], "label": 1}]
    return "\n".join(map(json.dumps, lines)).encode()


def read_contexts(path: Path) -> Any:
    contexts = data.load(f"contexts:{path}")
    masks = [context.cited_mask() for context in contexts.inputs if context.cited]
    return masks, [contexts.digest(place) for place in range(len(contexts))]


def read_texts(path: Path) -> Any:
    """The bytes are the texts; their labels are sound."""
    folder = path.parent / "texts"
    folder.mkdir(exist_ok=True)
    (folder / "test_text.txt").write_bytes(path.read_bytes())
    (folder / "test_labels.txt").write_text("0\n1\n")
    (folder / "mapping.txt").write_text("0\tbad\n1\tgood\n")
    found = data.load(f"tweeteval:{folder}")
    return [found.inputs[i] for i in range(len(found))]


def read_labels(path: Path) -> Any:
    """The bytes are the labels; the texts are sound."""
    folder = path.parent / "labels"
    folder.mkdir(exist_ok=True)
    (folder / "test_text.txt").write_text("a day\nno day\n")
    (folder / "test_labels.txt").write_bytes(path.read_bytes())
    (folder / "mapping.txt").write_bytes(b"0\tbad\n1\tgood\n")
    return len(data.load(f"tweeteval:{folder}"))


def picture() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(buffer, format="PNG")
    return buffer.getvalue()


def read_picture(path: Path) -> Any:
    folder = path.parent / "images" / "cat"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one.png").write_bytes(path.read_bytes())
    found = data.load(f"images:{folder.parent}")
    return hf.mask_image(lambda images: np.zeros((len(images), 2)), found.inputs[0], groups=(2, 2))


# -- models -----------------------------------------------------------------------------------------


def onnx_bytes() -> bytes:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.eye(4, 2, dtype=np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "rows",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", 2])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


def read_onnx(path: Path) -> Any:
    loaded = models.load(f"onnx:{path.rename(path.with_suffix('.onnx'))}", kind="table")
    return loaded.predict(np.ones((1, 4), dtype=np.float32))


def skops_bytes() -> bytes:
    import skops.io
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])
    return bytes(skops.io.dumps(fitted))


def read_skops(path: Path) -> Any:
    return models.load(f"skops:{path}").predict(np.ones((1, 4)))


@cache
def hub_folder() -> dict[str, bytes]:
    """The files of a tiny vision transformer."""
    import tempfile

    from tests.helpers.tiny_models import save_vit

    with tempfile.TemporaryDirectory() as folder:
        save_vit(Path(folder))
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def of_folder(name: str) -> Format:
    """One file of the folder is spoilt, the others are whole."""

    def read(path: Path) -> Any:
        folder = path.parent / "model"
        folder.mkdir(exist_ok=True)
        for other, content in hub_folder().items():
            (folder / other).write_bytes(content)
        (folder / name).write_bytes(path.read_bytes())
        return models.load(f"hf:{folder}")

    return Format(f"hf folder, {name}", lambda: hub_folder()[name], read, slow=True)


def read_mask(path: Path) -> Any:
    return read_numbers(str(path))


def of_suffix(suffix: str, make: Callable[[], bytes], read: Callable[[Path], Any], name: str, **more: Any) -> Format:
    """A format that is known by the ending of its name."""
    return Format(name, make, lambda path: read(path.rename(path.with_name(f"file{suffix}"))), **more)


FORMATS: list[Format] = [
    *(of_result(name) for name in sorted(RESULTS)),
    of_suffix(".toml", study_toml, study.read_spec, "study.toml"),
    of_suffix(".db", store_bytes, read_store, "file of results", slow=True),
    of_suffix(".npy", lambda: saved_array(np.arange(6.0)), as_scores, "scores.npy"),
    of_suffix(".npz", lambda: saved_array(None, scores=np.arange(6.0)), as_scores, "scores.npz"),
    of_suffix(".csv", lambda: b"name,score\na,1\nb,-2.5\n", as_scores, "scores.csv"),
    of_suffix(".npy", lambda: saved_array(np.arange(6) % 2 == 0), read_mask, "mask.npy"),
    of_suffix(".json", lambda: b"[true, false, 1, 0, 0.5, 2]", read_mask, "mask.json"),
    of_suffix(".csv", lambda: b"1,0,0,1,true,false\n", read_mask, "mask.csv"),
    of_suffix(".csv", table_text, read_table, "table.csv"),
    of_suffix(".parquet", table_parquet, read_table, "table.parquet"),
    of_suffix(".txt", lambda: "a day\nnot ä day\n".encode(), read_texts, "texts"),
    of_suffix(".txt", lambda: b"0\n1\n", read_labels, "labels"),
    of_suffix(".jsonl", context_lines, read_contexts, "contexts.jsonl"),
    of_suffix(".png", picture, read_picture, "image"),
    of_suffix(".onnx", onnx_bytes, read_onnx, "model.onnx"),
    of_suffix(".skops", skops_bytes, read_skops, "model.skops"),
    *(of_folder(name) for name in ("config.json", "model.safetensors", "preprocessor_config.json")),
]


# -- spoiling ---------------------------------------------------------------------------------------

LEAVES: list[Any] = [None, True, 0, -1, 1.5, 10**400, 1e400, "", "x", [], {}, [[]], {"schema": "holdfast.certificate"}]
LEAVES += [
    {"n_features": 10**12, "shown": [0]},
    {"n_features": 4, "shown": [9]},
    {"low": 1, "high": 0},
    {"numbers": ["a"]},
]
LEAVES += ["</script><b>", "\ud800", 2**63, -0.0, [0] * 50, {"looks": [0], "limits": [9]}]


def spoil(content: bytes, seed: int) -> bytes:
    """Another content of the same kind, as accidents and enemies make them."""
    luck = random.Random(seed)
    ways: list[Callable[[bytes, random.Random], bytes]] = [_cut, _flip, _flip, _insert, _shuffle, _foreign]
    if content[:1] in b"{[" and luck.random() < 0.7:
        return _edit(content, luck)
    return luck.choice(ways)(content, luck)


def _cut(content: bytes, luck: random.Random) -> bytes:
    return content[: luck.randrange(len(content) + 1)]


def _flip(content: bytes, luck: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(luck.choice([1, 2, 8])):
        changed[luck.randrange(len(changed))] = luck.randrange(256)
    return bytes(changed)


def _insert(content: bytes, luck: random.Random) -> bytes:
    at = luck.randrange(len(content) + 1)
    added = luck.choice(
        [b"\x00" * 9, b"\xff\xfe", b"\n" * 5, b"\xf0\x9f\x99\x82", b"1e999,", b"[" * 3000, b"'\"\\", b"nan"]
    )
    return content[:at] + added + content[at:]


def _shuffle(content: bytes, luck: random.Random) -> bytes:
    one, two = sorted(luck.randrange(len(content) + 1) for _ in range(2))
    return content[two:] + content[one:two] + content[:one]


def _foreign(content: bytes, luck: random.Random) -> bytes:
    others = [
        b"",
        b"\x80\x04\x95",
        b"PK\x03\x04",
        b"SQLite format 3\x00" + bytes(84),
        b"<html>",
        b"{}",
        b"[]",
        b"\x89PNG\r\n",
    ]
    return luck.choice([*others, luck.randbytes(luck.randrange(1, 300))])


def _edit(content: bytes, luck: random.Random) -> bytes:
    """One leaf of a JSON document, or of the last of several lines, replaced, removed or added."""
    before, start, last = content.rpartition(b"\n{")
    document = json.loads(start[1:] + last)
    owner, key = luck.choice(list(_places(document)))
    way = luck.random()
    if way < 0.15 and isinstance(owner, dict):
        del owner[key]
    elif way < 0.25 and isinstance(owner, dict):
        owner["unknown"] = 1
    else:
        owner[key] = luck.choice(LEAVES)
    return before + start[:1] + json.dumps(document).encode("utf-8", "surrogateescape")


def _places(value: Any) -> Any:
    for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)
