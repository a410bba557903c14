"""Files and objects with questions, passages and citations become data sets; what cannot be read is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast as hf
from holdfast.cli import main
from holdfast.cli.single import read_input
from holdfast.errors import HoldfastError, InvalidValueError
from holdfast.inputs.data.contexts import ContextInput
from holdfast.masking.context.endpoint import Endpoint
from holdfast.masking.context.mask_context import citing_template
from holdfast.study.spec import NO_TRUST, DataSpec, MaskingSpec, ModelSpec, Trust, parse_spec
from holdfast.study.worker import check_packages, check_trust, named_inputs
from tests.helpers.readers import CONTEXTS, read, says, uncited

WHOLE: dict[str, Any] = {"question": "How tall?", "passages": ["It rains.", "It is 84 metres tall."]}


def write(path: Path, *lines: Any) -> Path:
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_every_key_of_a_line_is_read(tmp_path: Path) -> None:
    full = WHOLE | {"id": "tower", "cited": [2], "answer": "84 metres", "accepted": ["84 m"], "label": "yes", "more": 1}
    data = hf.data.load(f"contexts:{write(tmp_path / 'qa.jsonl', full, '', WHOLE | {'label': 7})}")
    passages = ("It rains.", "It is 84 metres tall.")
    assert data.inputs[0] == ContextInput("How tall?", passages, (2,), "84 metres", ("84 m",), "yes")
    assert data.inputs[1] == ContextInput("How tall?", passages, label="7")
    assert (data.kind, data.names, data.classes) == ("context", ("tower", "qa.jsonl line 3"), ("7", "yes"))
    assert [data.label_of(place) for place in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("cited", "numbers"),
    [
        ([2], (2,)),
        ([2, 1, 2], (1, 2)),
        ([2.0], (2,)),
        ([False, True], (2,)),
        ([False, False], ()),
        ([], ()),
        (None, None),
    ],
)
def test_citations_are_numbers_or_a_mask(tmp_path: Path, cited: Any, numbers: Any) -> None:
    (context,) = hf.data.load(f"contexts:{write(tmp_path / 'qa.jsonl', WHOLE | {'cited': cited})}").inputs
    assert context.cited == numbers
    if numbers:
        assert [place + 1 for place in np.flatnonzero(context.cited_mask())] == list(numbers)
    else:
        with pytest.raises(InvalidValueError, match="`cited` must name at least one passage"):
            context.cited_mask()


BAD_LINES: list[tuple[Any, str]] = [
    ('{"question": "How', "Line 2 of .* must be a JSON object: Unterminated string"),
    (json.dumps(WHOLE) + ",", "Line 2 of .* JSON lines have no commas between them"),
    ("[" * 100_000, "Line 2 of .* must be a JSON object"),
    ([1], "Line 2 of .* must be an object with a question and passages, got \\[1\\]"),
    ({"passages": ["a"]}, "In line 2 of .*, `question` must be a text that is not empty, got nothing"),
    (WHOLE | {"question": 3}, "In line 2 of .*, `question` must be a text that is not empty, got 3"),
    (WHOLE | {"question": " "}, "In line 2 of .*, `question` must be a text that is not empty, got ' '"),
    (WHOLE | {"passages": "It rains."}, "In line 2 of .*, `passages` must be a list of texts"),
    (WHOLE | {"passages": []}, "In line 2 of .*, `passages` must hold at least one passage, got none"),
    (
        WHOLE | {"passages": ["a", ""]},
        "In line 2 of .*, `passages` must be a list of texts, none of them empty, got ''",
    ),
    (WHOLE | {"passages": ["a", {"b": 1}]}, "In line 2 of .*, `passages` must be a list of texts"),
    (WHOLE | {"passages": ["a"] * 10_001}, "In line 2 of .*, `passages` must .* of at most 10000 entries"),
    (WHOLE | {"cited": [0]}, "In line 2 of .*, `cited` must be numbers of passages, from 1 to 2, got 0"),
    (WHOLE | {"cited": [3]}, "In line 2 of .*, `cited` must be numbers of passages, from 1 to 2, got 3"),
    (WHOLE | {"cited": [1.5]}, "In line 2 of .*, `cited` must be numbers of passages, from 1 to 2, got 1.5"),
    (WHOLE | {"cited": ["2"]}, "In line 2 of .*, `cited` must be numbers of passages, from 1 to 2, got '2'"),
    (WHOLE | {"cited": [True]}, "In line 2 of .*, `cited` must be numbers of passages, from 1, or one true or false"),
    (WHOLE | {"cited": 2}, "In line 2 of .*, `cited` must be numbers of passages"),
    (WHOLE | {"answer": 84}, "In line 2 of .*, `answer` must be a text that is not empty, got 84"),
    (WHOLE | {"accepted": "84 m"}, "In line 2 of .*, `accepted` must be a list of texts"),
    (WHOLE | {"label": []}, "In line 2 of .*, `label` must be a text or a number"),
    (WHOLE | {"id": ["a"]}, "In line 2 of .*, `id` must be a text or a whole number"),
    (WHOLE | {"id": "two\nlines"}, "In line 2 of .*, `id` must be printable on one line"),
    (WHOLE | {"id": "first"}, "must have an `id` of its own, got 'first' for inputs 0 and 1"),
    ('{"question": "\\ud800", "passages": ["a"]}', "In line 2 of .*, `question` must be valid Unicode"),
    (
        '{"question": "a", "passages": ["' + "y" * (1 << 24) + '"]}',
        "Line 2 of .* must have at most 16777216 characters",
    ),
]


@pytest.mark.parametrize(("line", "message"), BAD_LINES, ids=[str(number) for number in range(len(BAD_LINES))])
def test_a_line_that_cannot_be_read_is_named_with_its_file(tmp_path: Path, line: Any, message: str) -> None:
    path = write(tmp_path / "qa.jsonl", WHOLE | {"id": "first"}, line)
    with pytest.raises(HoldfastError, match=message) as caught:
        hf.data.load(f"contexts:{path}")
    assert str(path) in str(caught.value)


def test_a_file_that_is_none_or_empty_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidValueError, match=r"must be followed by a file of JSON lines, got 'no\.jsonl', which is not a"
    ):
        hf.data.load("contexts:no.jsonl")
    with pytest.raises(InvalidValueError, match="must have at least one line with a context"):
        hf.data.load(f"contexts:{write(tmp_path / 'empty.jsonl')}")
    (tmp_path / "latin.jsonl").write_bytes('{"question": "wie groß?"}'.encode("latin-1"))
    with pytest.raises(InvalidValueError, match="must be text in UTF-8"):
        hf.data.load(f"contexts:{tmp_path / 'latin.jsonl'}")
    with pytest.raises(InvalidValueError, match=r"Did you mean 'contexts:qa\.jsonl'"):
        hf.data.load("qa.jsonl")


def test_bundled_contexts_have_citations_and_answers() -> None:
    data = hf.data.load("bundled:contexts")
    assert (data.kind, len(data), data.names and data.names[0]) == ("context", 48, "velm-tower")
    assert all(context.answer and context.cited_mask().any() for context in data.inputs)
    with pytest.raises(InvalidValueError, match="be 'test' for bundled:contexts"):
        hf.data.load("bundled:contexts", split="train")


def test_another_passage_is_another_input(tmp_path: Path) -> None:
    changed = WHOLE | {"passages": ["It rains.", "It is 85 metres tall."]}
    data = hf.data.load(f"contexts:{write(tmp_path / 'qa.jsonl', WHOLE, changed, WHOLE)}")
    assert data.digest(0) == data.digest(2) != data.digest(1)


@dataclass
class LangChainDocument:
    page_content: str


@dataclass
class LlamaIndexNode:
    text: str


class RagasSample:
    def model_dump(self) -> dict[str, Any]:
        return {
            "user_input": "How tall?",
            "retrieved_contexts": ["It rains.", "It is 84 metres tall."],
            "response": "84 metres",
            "reference": "eighty-four metres",
            "rubrics": None,
        }


ANSWERED = ContextInput(
    "How tall?", ("It rains.", "It is 84 metres tall."), answer="84 metres", label="eighty-four metres"
)
LIVE: list[Any] = [
    RagasSample(),
    RagasSample().model_dump(),
    WHOLE | {"answer": "84 metres", "ground_truth": "eighty-four metres"},
    {
        "question": "How tall?",
        "contexts": [LangChainDocument("It rains."), LlamaIndexNode("It is 84 metres tall.")],
        "answer": "84 metres",
        "label": "eighty-four metres",
    },
    ANSWERED,
]


@pytest.mark.parametrize("entry", LIVE, ids=["ragas", "ragas mapping", "ground truth", "documents", "value"])
def test_objects_that_ask_a_question_are_contexts(entry: Any) -> None:
    inputs = hf.bind(read, [entry])
    assert (inputs.kind, inputs.raw(0), inputs.name(0)) == ("context", ANSWERED, "0")
    assert repr(inputs) == "Inputs(1 context of list, model read)"


def test_a_frame_of_contexts_leaves_out_what_is_missing() -> None:
    pandas = pytest.importorskip("pandas")
    rows = [WHOLE | {"answer": "84 metres", "cited": [2]}, WHOLE | {"answer": None, "id": "b"}]
    inputs = hf.bind(read, pandas.DataFrame(rows), kind="context")
    assert [(inputs.raw(place).answer, inputs.raw(place).cited) for place in range(2)] == [
        ("84 metres", (2,)),
        (None, None),
    ]
    assert inputs.name(1) == "b"


def test_rows_with_a_column_called_question_stay_rows() -> None:
    pytest.importorskip("pandas")
    inputs = hf.bind(
        lambda rows: np.ones((len(rows), 2)), [{"question": 1.0, "age": 3.0}, {"question": 0.0, "age": 4.0}]
    )
    assert inputs.kind == "table"


def test_a_live_context_that_cannot_be_read_is_named_by_its_number() -> None:
    with pytest.raises(HoldfastError, match="In input 1, `passages` must be a list of texts"):
        hf.bind(read, [WHOLE, {"question": "How tall?"}])


def test_a_bound_context_says_what_the_model_answers() -> None:
    inputs, rng = hf.bind(read, "bundled:contexts", template="citing"), np.random.default_rng(0)
    for place in (0, 17, 47):
        context, model = inputs.raw(place), inputs[place]
        masks = rng.random((20, model.n_features)) < 0.6
        assert model.n_features == len(context.passages)
        assert model(masks).tolist() == [uncited(says(context, mask)) for mask in masks]
    assert inputs.fingerprint(0) == inputs.fingerprint(0) != inputs.fingerprint(1)


def test_the_citing_template_asks_for_citations_and_answers_are_compared_without_them() -> None:
    prompts: list[str] = []

    def ask(prompt: str) -> str:
        prompts.append(prompt)
        return f"84 Metres [{len(prompts)}, 2]."

    (model,) = hf.bind(ask, [WHOLE], template="citing")
    assert model(np.ones((2, 2), dtype=bool)).tolist() == ["84 Metres."] * 2
    assert prompts[0] == citing_template("How tall?", [(1, "It rains."), (2, "It is 84 metres tall.")])
    assert "name in brackets" in prompts[0]


def test_accepted_forms_of_an_answer_count_as_the_answer() -> None:
    def ask(prompt: str) -> str:
        return "84 m" if "It rains" in prompt else "84 metres"

    entry = WHOLE | {"cited": [2], "answer": "84 metres", "accepted": ["84 m", "84\n'm\""]}
    assert hf.certify(hf.bind(ask, [entry])[0], [1], radius=1).rate == 1
    assert hf.certify(hf.bind(ask, [entry], accepted=["85 m"])[0], [1], radius=1).rate == 0.5
    assert hf.certify(hf.bind(ask, [entry | {"accepted": []}])[0], [1], radius=1).rate == 0.5


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: hf.bind(read, "bundled:contexts", fill=0)[0], "`fill` must be left out: hidden passages are not written"),
    (lambda: hf.bind(read, "bundled:contexts", template="x")[0], "`template` must be one of default, citing"),
    (lambda: hf.bind(read, "bundled:contexts", grid=3), "`grid` must be an option of `mask_context`"),
    (
        lambda: hf.bind("bundled:vader", "bundled:contexts"),
        "must be a model for contexts, got one for texts",
    ),
    (lambda: hf.bind("openai:http://127.0.0.1:9/v1#m", "bundled:sentences"), "`kind` must be 'context' for 'openai:"),
    (lambda: hf.bind("openai:http://127.0.0.1:9/v1", "bundled:contexts"), "must name a model after '#'"),
    (lambda: hf.models.load("openai:http://127.0.0.1:9/v1#m", cash="a"), "one of .*cache.*, got 'cash'. Did you mean"),
    (lambda: hf.models.load("openai:http://127.0.0.1:9/v1#m").predict(["a"]), "returns answers, not scores"),
    (lambda: hf.bind("openai:http://127.0.0.1:9/v1#m", "bundled:contexts", labels=[0]), "one entry per input"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_cannot_work_is_refused_before_any_call(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(HoldfastError, match=message):
        call()


def test_options_of_an_endpoint_reach_it_and_no_key_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    options = {
        "cache": "answers.db",
        "max_tokens": 16,
        "key_variable": "MY_KEY",
        "extra": {"stop": ["\n"], "a": {"b": 1}},
    }
    spec = ModelSpec("openai:http://127.0.0.1:9/v1#m", options)
    inputs = named_inputs(spec, DataSpec("bundled:contexts"), MaskingSpec(options={"template": "citing"}))
    endpoint = inputs.classifier.engine.function  # type: ignore[attr-defined]
    expected = {"cache": Path("answers.db"), "max_tokens": 16, "key_variable": "MY_KEY", "extra": options["extra"]}
    assert endpoint == Endpoint("http://127.0.0.1:9/v1", "m", **expected)
    assert inputs[0].provenance.model == endpoint.fingerprint  # type: ignore[attr-defined]
    assert "s3cret" not in repr((inputs[0], inputs.classifier, endpoint, spec.options))


@pytest.mark.parametrize(
    "url",
    [
        *("https://example.org/v1", "http://127.0.0.1.example.org/v1", "http://10.0.0.1/v1", "http://localhost.a.org"),
        *(
            "http://127.0.0.1:80@example.org/v1",
            "http://localhost\\@example.org/v1",
            "http://example.org/http://localhost",
        ),
    ],
)
def test_an_endpoint_elsewhere_that_a_file_names_is_sent_nothing_unless_it_is_trusted(url: str) -> None:
    spec = ModelSpec(f"openai:{url}#m", trust=NO_TRUST)
    with pytest.raises(InvalidValueError, match=r"would receive your prompts and the API key.*--trust network"):
        check_trust(spec)
    check_trust(ModelSpec(f"openai:{url}#m", trust=Trust(network=True)))
    for local in ("http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8000/v1"):
        check_trust(ModelSpec(f"openai:{local}#m", trust=NO_TRUST))


def test_a_file_cannot_have_any_environment_variable_sent() -> None:
    place = "openai:http://127.0.0.1:9/v1#m"
    text = f'''
        methods = ["cited"]
        model = {{ spec = "{place}", options = {{ key_variable = "DB_PASSWORD" }} }}
        data = "bundled:contexts"
        certify = {{ radii = [1] }}
    '''
    with pytest.raises(InvalidValueError, match=r"receive the environment variable 'DB_PASSWORD'.*--trust network"):
        check_packages(parse_spec(text))
    with pytest.raises(InvalidValueError, match="DB_PASSWORD"):
        named_inputs(parse_spec(text).model, DataSpec("bundled:contexts"), MaskingSpec()).classifier  # noqa: B018
    check_packages(parse_spec(text, trust=Trust(network=True)))
    check_packages(parse_spec(text.replace("DB_PASSWORD", "OPENAI_API_KEY")))
    check_trust(ModelSpec(place, {"key_variable": None}, NO_TRUST))
    check_trust(ModelSpec(place, {"key_variable": "DB_PASSWORD"}))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("qa.jsonl#3", ("contexts:qa.jsonl", 3)),
        ("contexts:qa.jsonl#3", ("contexts:qa.jsonl", 3)),
        ("bundled:contexts#0", ("bundled:contexts", 0)),
    ],
)
def test_a_context_is_named_by_its_file_and_number(name: str, wanted: Any) -> None:
    assert read_input(name) == wanted


def test_single_commands_take_contexts_and_their_citations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    context = CONTEXTS["How tall is the tower of Velm?"]
    line = {"question": context.question, "passages": context.passages, "cited": context.cited}
    path = write(tmp_path / "qa.jsonl", WHOLE | {"question": "How much does the Corvan press weigh?"}, line)
    words = ["--model", "python:tests.helpers.readers:make", "--input", f"{path}#1", "--json"]
    citing = ["--set", "template=citing"]
    for explanation in ("cited", "citations"):
        assert main(["certify", *words, "--explanation", explanation, "--radius", "2", *citing]) == 0
        certificate = json.loads(capsys.readouterr().out)
        assert (certificate["selected"]["shown"], certificate["exact"]) == ([2], True)
    names = ["--explanation", "cited", "--explanation", "occlusion", "--top", "1"]
    assert main(["compare", *words, *names, "--radii", "1,2"]) == 0
    assert [
        curve["certificates"][0]["selected"]["shown"] for curve in json.loads(capsys.readouterr().out)["curves"]
    ] == [
        [2],
        [2],
    ]
    assert main(["witness", *words, "--explanation", "cited"]) == 0
    capsys.readouterr()
    assert main(["certify", *words, "--explanation", "cited", "--top", "1", "--radius", "2"]) == 3
    assert "`--top` must be left out: citations are not scores" in capsys.readouterr().err
    other = ["--model", "python:tests.helpers.readers:make", "--input", f"{path}#0", "--radius", "1"]
    assert main(["certify", *other, "--explanation", "cited"]) == 3
    assert "`cited` must name at least one passage" in capsys.readouterr().err
    assert main(["certify", *other, "--explanation", "lime", "--top", "1", "--set", "cache=a.db"]) == 3
    assert "`--set cache` must be an option of python: models" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(hf, "certify_citations"), reason="there is no `certify_citations`")
@pytest.mark.parametrize("cited", [[], ["--cited", "3"], ["--cited", "citations", "--set", "template=citing"]], ids=str)
def test_citations_of_one_answer_are_certified(cited: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bundled:contexts#0", "--model", "python:tests.helpers.readers:make", "--radius", "2", "--min-rate", "0.9"]
    assert main(["citations", *words, *cited]) == 0
    assert capsys.readouterr().out.strip()
    assert main(["citations", *words, *cited, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_numbers_of_no_passage_are_no_citations(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["citations", "bundled:contexts#0", "--model", "python:tests.helpers.readers:make"]
    for cited, message in (("7", "cite passages from 1 to 6"), ("a", "be numbers of passages such as 1,3")):
        assert main([*words, "--cited", cited]) == 3
        assert message in capsys.readouterr().err
