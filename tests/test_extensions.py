"""Growing touches one room: a module of each kind and a line, taken through a whole run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binary_checks import differences, objects, packages, places, probes, reports, sources, trees
from binary_checks.command import main
from binary_checks.objects import Readable
from tests.extensions import (
    box_difference,
    box_kind,
    box_place,
    box_source,
    box_tree,
    list_report,
    rune_format,
)

CHECKS = Path(__file__).parent / "extensions" / "box_checks.py"
MEMBERS = {"ABOUT": "demo 1.0", "good": "RUNE oak", "bad": "RUNE oak raven"}


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in each room's tuple."""
    rune = Readable(rune_format.RuneFile.format, (b"RUNE",), rune_format.__name__)
    weigh = "tests.extensions.weigh.reader"
    monkeypatch.setattr(objects, "READERS", (*objects.READERS, rune))
    monkeypatch.setattr(trees, "TREES", (*trees.TREES, box_tree))
    monkeypatch.setattr(packages, "KINDS", (*packages.KINDS, box_kind))
    monkeypatch.setattr(sources, "SOURCES", (box_source, *sources.SOURCES))
    monkeypatch.setattr(places, "PLACES", (box_place.BoxPlace, *places.PLACES))
    monkeypatch.setattr(probes, "PROBES", (*probes.PROBES, weigh))
    toys = (*differences.MODULES, box_difference.__name__)
    monkeypatch.setattr(differences, "MODULES", toys)
    monkeypatch.setattr(reports, "REPORTS", (*reports.REPORTS, list_report))


def pack(folder: Path, members: dict[str, str]) -> None:
    box = folder / "boxes" / "demo.box"
    box.parent.mkdir()
    box.write_bytes(box_tree.MAGIC + json.dumps(members).encode())


@pytest.mark.usefixtures("grown")
def test_a_toy_of_each_goes_through_a_whole_run(pytester: pytest.Pytester) -> None:
    pack(pytester.path, MEMBERS)
    pytester.makefile(".toml", profile=f"checks = [{str(CHECKS)!r}]")
    options = ("--binary-profile", "profile.toml", "--binary-report", "list:list.txt")
    result = pytester.runpytest_inprocess("box:demo", *options, "--binary-sandbox", "off", "-rA")
    result.stdout.fnmatch_lines(["unlucky-rune: demo.box: bad: needs raven"])
    listed = dict(line.split(" ", 2)[1:] for line in Path("list.txt").read_text().splitlines())
    assert listed["unlucky-rune"] == "failed"
    assert listed["empty-box"] == "passed"
    assert listed["heavy-box"] == "passed"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.usefixtures("grown")
def test_its_checks_fail_where_they_should(pytester: pytest.Pytester) -> None:
    pack(pytester.path, {"ABOUT": "demo 1.0"})
    pytester.makefile(".toml", profile=f"checks = [{str(CHECKS)!r}]")
    result = pytester.runpytest_inprocess("box:demo", "--binary-profile", "profile.toml")
    result.stdout.fnmatch_lines(["empty-box: demo.box: holds nothing but ABOUT"])


@pytest.mark.usefixtures("grown")
def test_two_toys_are_compared_by_differences_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pack(tmp_path, MEMBERS)
    later = {"ABOUT": "demo 1.1", "bad": "RUNE oak raven elm"}
    (tmp_path / "boxes" / "later.box").write_bytes(box_tree.MAGIC + json.dumps(later).encode())
    assert main(["diff", "box:demo", "box:later", "--fail-on", "break"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "break: texts: good: was taken out" in lines
    assert "change: woods: bad: needs elm" in lines
