"""Commands about one input: each says what the library says, its file is read back and verified, its figure drawn."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.house_figures import n_options

import holdfast as hf
from holdfast.certification.question import FIELDS
from holdfast.cli import command_parser, main
from holdfast.cli.options import INPUT_SETTINGS, SETTINGS
from holdfast.cli.single import VERBS, read_input
from holdfast.masking.context.endpoint import Endpoint
from holdfast.report.figures.examples import plot_result
from holdfast.report.figures.style import write_figure

ROW = ["--model", "bundled:cancer-forest", "--input", "bundled:cancer#13"]
TOP = ["--method", "occlusion", "--top", "3"]
ASKED = {
    "explain": ["--method", "shap"],
    "certify": [*TOP, "--radius", "2"],
    "curve": [*TOP, "--radii", "1-3"],
    "radius": [*TOP, "--min-rate", "0.8", "--radii", "1,2"],
    "witness": [*TOP, "--radius", "2"],
    "compare": [*TOP, "--method", "random", "--radii", "1,2"],
}
RESULTS: dict[str, Any] = {
    "explain": hf.Attribution,
    "certify": hf.Certificate,
    "curve": hf.StabilityCurve,
    "radius": hf.RadiusCertificate,
    "witness": hf.Witness,
    "compare": hf.Comparison,
}


def by_the_library(command: str) -> Any:
    """The same question in Python."""
    model = hf.Evaluator(hf.bind("bundled:cancer-forest", "bundled:cancer")[13])
    selected = hf.top(hf.attribute(model, "occlusion"), 3)
    key: dict[str, Any] = {"rng": "canonical"}
    if command == "compare":
        other = hf.top(hf.attribute(model, "random", **key), 3)
        return hf.compare(model, {"occlusion": selected, "random": other}, [1, 2], **key)
    return {
        "explain": lambda: hf.attribute(model, "shap", **key),
        "certify": lambda: hf.certify(model, selected, radius=2, **key),
        "curve": lambda: hf.certify_radii(model, selected, radii=[1, 2, 3], **key),
        "radius": lambda: hf.certified_radius(model, selected, min_rate=0.8, radii=[1, 2], **key),
        "witness": lambda: hf.find_witness(model, selected, max_radius=2, **key),
    }[command]()


@pytest.mark.parametrize("command", ASKED)
def test_a_verb_says_writes_and_draws_what_the_library_finds_and_verify_confirms_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, picture = tmp_path / "result.json", tmp_path / "picture.png"
    assert main([command, *ROW, *ASKED[command], "--output", str(file), "--plot", str(picture)]) == 0
    result, said = by_the_library(command), capsys.readouterr().out
    assert RESULTS[command].from_json(file.read_text()) == result
    assert said.startswith(str(result))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([command, *ROW, *ASKED[command], "--json"]) == 0
    assert RESULTS[command].from_json(capsys.readouterr().out) == result
    assert main(["verify", str(file), *ROW]) == 0
    assert capsys.readouterr().out.startswith("Confirmed: ")
    assert main(["verify", str(file), *ROW[:3], "bundled:cancer#14"]) == 1


@pytest.mark.parametrize(
    ("command", "forged"),
    [
        ("witness", {"cleared_radius": 1}),
        ("witness", {"original_prediction": 1, "original_name": "benign"}),
        ("explain", {"target": 1, "target_name": "benign"}),
        ("explain", {"method": "lime"}),
    ],
)
def test_an_edited_witness_and_edited_scores_are_not_confirmed(
    command: str, forged: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "result.json"
    assert main([command, *ROW, *ASKED[command], "--output", str(file)]) == 0
    data = json.loads(file.read_text())
    assert forged.keys() <= data.keys()
    file.write_text(json.dumps(data | forged))
    capsys.readouterr()
    assert main(["verify", str(file), *ROW]) == 1
    assert "Not confirmed: " in capsys.readouterr().out


def test_a_witness_that_does_not_change_the_prediction_is_not_confirmed() -> None:
    model = hf.mask_function(lambda masks: masks[:, 0] & ~(masks[:, 5] & masks[:, 7]), n_features=8)
    selected = np.arange(8) < 2
    witness = hf.find_witness(model, selected, rng=0)
    assert (witness.added, hf.recheck(model, witness).confirmed) == ((5, 7), True)
    data = json.loads(witness.to_json())
    for added in ([4, 5], [5, 6, 7]):  # one changes nothing, of the other a part is enough
        shown = data["mask"] | {"shown": [0, 1, *added]}
        forged = hf.Witness.from_json(json.dumps(data | {"mask": shown, "added": added, "n_added": len(added)}))
        assert not hf.recheck(model, forged).confirmed
    none = hf.find_witness(model, np.arange(8) < 6, max_radius=1, rng=0)
    assert hf.recheck(model, none).confirmed


def test_scores_that_differ_only_by_rounding_are_confirmed() -> None:
    model = hf.lookup_table([mask % 3 for mask in range(2**6)], n_features=6)
    scores = hf.attribute(model, "lime", n_samples=50, rng=3)
    for change, confirmed in ((1e-12, True), (1e-3, False)):
        assert hf.recheck(model, replace(scores, scores=scores.scores + change)).confirmed is confirmed
        details = dict(scores.details) | {"fit": scores.details["fit"] + change}
        assert hf.recheck(model, replace(scores, details=details)).confirmed is confirmed
    with pytest.raises(hf.errors.InvalidValueError, match="other methods cannot be repeated"):
        hf.recheck(model, hf.from_array(np.arange(6.0)))


def test_scores_that_were_written_can_be_the_next_explanation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "scores.json"
    assert main(["explain", *ROW, "--method", "occlusion", "--output", str(file)]) == 0
    capsys.readouterr()
    assert main(["certify", *ROW, "--explanation", str(file), "--top", "3", "--radius", "2", "--json"]) == 0
    assert hf.Certificate.from_json(capsys.readouterr().out) == by_the_library("certify")


def test_the_options_of_a_method_are_settings_of_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *ROW, "--method", "occlusion", "--set", "leave=in", "--json"]) == 0
    assert hf.Attribution.from_json(capsys.readouterr().out).details["leave"] == "in"
    assert main(["explain", *ROW, "--method", "occlusion", "--set", "kernel_width=1"]) == 3
    assert "`--set kernel_width` is not an option of 'occlusion'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("method=x", "`--set method` is not an option of 'occlusion', which takes `leave`."),
        ("model=x", "`--set model` is not an option of 'occlusion', which takes `leave`."),
        ("progress=1", "`--set progress` is not an option of 'occlusion', which takes `leave`."),
        ("leaf=in", "`--set leaf` is not an option of 'occlusion', which takes `leave`. Did you mean leave?"),
    ],
)
def test_what_is_no_option_of_a_method_is_refused_with_the_nearest_name(
    setting: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *ROW, "--method", "occlusion", "--set", setting]) == 3
    assert capsys.readouterr().err == f"holdfast: {told}\n"


def test_scores_of_0_and_1_are_scores_with_top_and_from_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", "bundled:vader", "--input", "text:what a good day", "--radius", "1", "--json"]
    scores, numbers = tmp_path / "scores.json", tmp_path / "numbers.csv"
    scores.write_text(hf.from_array(np.array([0.0, 1.0, 0.0, 1.0])).to_json())
    numbers.write_text("0,1,0,1")
    assert main(["certify", *words, "--explanation", str(scores)]) == 3
    assert "must come with `--top`, the number of features to select" in capsys.readouterr().err
    for file, top, selected in ((scores, ["--top", "1"], [1]), (numbers, ["--top", "1"], [1]), (numbers, [], [1, 3])):
        assert main(["certify", *words, "--explanation", str(file), *top]) == 0
        assert json.loads(capsys.readouterr().out)["selected"]["shown"] == selected
    ask = ["compare", *words[:4], "--radii", "1", "--json", "--top", "1", "--method", "occlusion"]
    assert main([*ask, "--explanation", str(numbers)]) == 0
    curve = json.loads(capsys.readouterr().out)["curves"][1]
    assert curve["certificates"][0]["selected"]["shown"] == [1]


@pytest.mark.parametrize("command", VERBS)
def test_every_setting_of_a_verb_is_a_keyword_of_its_function(command: str) -> None:
    verb = VERBS[command]
    taken = inspect.signature(getattr(hf, verb.function)).parameters
    own = [name for name in verb.settings if name != "n_samples" or command == "explain"]
    assert [name for name in own if name not in taken] == []
    bound = {*inspect.signature(hf.bind).parameters, *inspect.signature(hf.mask_context).parameters}
    bound |= inspect.signature(Endpoint).parameters.keys()
    assert [name for name in INPUT_SETTINGS if name not in (*bound, "batch_size", "timeout")] == []
    assert not SETTINGS.keys() & FIELDS.keys()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("text:a good day #3", (["a good day #3"], 0)),
        ("images:photos#3", ("images:photos", 3)),
        ("table:x.csv#7", ("table:x.csv", 7)),
        ("x.parquet#0", ("table:x.parquet", 0)),
        ("cat.png", ([Path("cat.png")], 0)),
    ],
)
def test_an_input_has_one_kind_of_name(name: str, wanted: Any) -> None:
    assert read_input(name) == wanted


def test_a_text_file_is_the_text_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "day.txt").write_text("what a good day\n")
    ask = ["certify", "--model", "bundled:vader", *TOP[:3], "1", "--radius", "2", "--input"]
    assert main([*ask, str(tmp_path / "day.txt")]) == 0
    from_file = capsys.readouterr().out
    assert main([*ask, "text:what a good day"]) == 0
    assert capsys.readouterr().out == from_file


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("what a day", "got 'what a day'. Write 'text:what a day' for the text itself."),
        (
            "bundled:digits",
            "the number of an input, got 'bundled:digits'. Count from 0: 'bundled:digits#0'",
        ),
        ("x.csv", "must end with the number of an input, got 'x.csv'."),
        ("digits#3", "must start with one of bundled:, images:, tweeteval:, table:, contexts:, hf:, got 'digits'."),
        ("bundled:sentences#999", "must end with a number from 0 to 199, got 'bundled:sentences#999'."),
        (
            "bundled:sentenses#1",
            "one of digits, sentences, cancer, contexts, photos, got 'sentenses'. Did you mean 'sentences'?",
        ),
    ],
)
def test_an_input_that_is_not_there_is_told_with_what_to_write(
    name: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["certify", "--model", "bundled:vader", "--input", name, *TOP, "--radius", "1"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("holdfast: `--input` must ")
    assert told in error


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["certfy"], "holdfast: unknown command 'certfy'. Did you mean certify?"),
        (["study", "sumary"], "holdfast study: unknown command 'sumary'. Did you mean summary?"),
        (["nonsense"], "unknown command 'nonsense'. Commands: demo, explain, certify, "),
        (["certify", *ROW, *TOP, "--radius", "1", "--plan", "exact"], "--plan exact. Write --set plan=exact."),
        (
            ["certify", *ROW, *TOP, "--radius", "1", "--set", "plam=exact"],
            "no setting 'plam' here. Did you mean plan?",
        ),
        (["certify", *ROW, *TOP, "--radius", "1", "--set", "plan"], "must look like fill=VALUE, got 'plan'"),
        (["certify", *ROW, *TOP, "--radius", "1", "--set", "rng=1", "--set", "rng=2"], "sets rng twice"),
        (["certify", *ROW, *TOP, "--radius", "1", "--radius", "2"], "--radius may be given only once."),
        (
            ["certify", *ROW, *TOP, "--radius", "1", "--output", "x.gif"],
            "must end in .json, .png, .svg or .xml, got 'x.gif'",
        ),
        (["certify", *ROW, "--method", "lime", "--top", "few", "--radius", "1"], "a share such as 0.25, got 'few'"),
        (["certify", *ROW, "--grid", "few", *TOP, "--radius", "1"], "must look like 14x14, or be one of tokens, words"),
    ],
    ids=range(11),
)
def test_what_cannot_be_understood_is_told_with_what_to_write(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 3
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--features", "words"], "`--features` must be left out: the features of a row are its columns, got 'words'."),
        (["--set", "target=x"], "`--set target` must be an option of bundled: data (split)."),
        (["--set", "plan=fast"], "`--set plan` must be one of sequential, exact, hoeffding, got 'fast'."),
        (["--set", "batch_size=0"], "`--set batch_size` must be a whole number ≥ 1, got 0."),
        (["--model", "bundled:cancer-forrest"], "`--model` must be one of cancer-forest, "),
    ],
)
def test_what_has_no_effect_or_cannot_be_used_is_refused_by_its_name(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = [] if "--model" in words else ROW[:2]
    assert main(["certify", *model, *ROW[2:], *TOP, "--radius", "1", *words]) == 3
    assert told in capsys.readouterr().err


def test_help_of_the_program_loads_no_command() -> None:
    code = (
        "import sys\nfrom holdfast.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith('holdfast.cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['holdfast.cli.options']"


def test_the_command_line_has_few_options() -> None:
    assert n_options(command_parser()) <= 165


def test_a_class_whose_name_looks_like_a_formula_is_drawn_as_it_is(tmp_path: Path) -> None:
    table = np.array([[0.2, 0.8], [0.9, 0.1], [0.3, 0.7], [0.9, 0.1]])
    model = hf.lookup_table(table, n_features=2, classes=["costs $x_{ much$", "fine"])
    for result in (hf.certify(model, [True, False], radius=1), hf.attribute(model, "occlusion")):
        write_figure(plot_result(result, "a b", model).figure, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 0


def test_an_answer_is_printed_before_its_figure_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["certify", *ROW, *TOP, "--radius", "1", "--output", str(tmp_path / "figure.png")]
    with monkeypatch.context() as patch:
        patch.setattr("importlib.util.find_spec", lambda package: None if package == "matplotlib" else package)
        assert main(command) == 3
        assert "A figure needs matplotlib" in capsys.readouterr().err
    monkeypatch.setattr("holdfast.report.figures.style.write_figure", lambda *_: 1 / 0)
    assert main(command) == 3
    assert "keeps the prediction" in capsys.readouterr().out
