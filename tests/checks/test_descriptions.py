"""Descriptions that PyPI refuses, and what it shows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine
from binary_checks.checks.metadata import description_not_rendered
from binary_checks.model import Level, NotInspected, RenderedDescription, Wheel
from fixtures.build_wheel import build_wheel
from fixtures.values import only

BROKEN = "Title\n==\n\n:nonsense:`x`\n\n.. unknown::\n"


def render(folder: Path, text: str, content_type: str = "text/x-rst") -> list[Any]:
    kind = f"Description-Content-Type: {content_type}\n" if content_type else ""
    metadata = f"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n{kind}\n{text}"
    with examine(build_wheel(folder, metadata=metadata)) as facts:
        return [*description_not_rendered(facts.get(Wheel), facts.get(RenderedDescription))]


def test_a_description_that_does_not_render(tmp_path: Path) -> None:
    pytest.importorskip("readme_renderer")
    (problem,) = render(tmp_path, BROKEN)
    assert problem.level is Level.ERROR
    assert problem.sentence.startswith("the description does not render: line ")
    assert "nonsense" in problem.sentence
    assert render(tmp_path, "Title\n=====\n\nText.\n") == []


def test_markdown_and_plain_text_cannot_fail(tmp_path: Path) -> None:
    assert render(tmp_path, BROKEN, "text/markdown") == []
    assert render(tmp_path, BROKEN, "text/plain; charset=UTF-8") == []


@pytest.mark.parametrize("text", ["", "UNKNOWN", "\n\n"])
def test_a_missing_description_is_a_warning(tmp_path: Path, text: str) -> None:
    (problem,) = render(tmp_path, text, "text/markdown")
    assert (problem.sentence, problem.level) == ("there is no description", Level.WARNING)


def test_without_the_library_it_is_not_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "readme_renderer", None)
    finding = only(NotInspected, render(tmp_path, BROKEN))
    assert "install binary-checks[description]" in finding.sentence


def test_a_missing_content_type_is_a_warning(tmp_path: Path) -> None:
    first, *_ = render(tmp_path, "Text.", "")
    assert first.level is Level.WARNING
    assert "no content type" in first.sentence
