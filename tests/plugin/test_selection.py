"""The verdict of a check is the same whichever other checks a run has, and in whatever order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from binary_checks import places
from binary_checks.declaring import Check, find_checks
from binary_checks.examination.run import Run
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.model import InstalledFolders, InstallReport, Outcome, Package
from binary_checks.places import FreshPlace, PlaceSettings
from binary_checks.sources.file import FileSource
from fixtures.environments import running
from fixtures.installation import find_site, install_by_hand
from fixtures.slow import slow
from tests.plugin.conftest import Run as RunPytest
from tests.plugin.conftest import needy, provide_x

SAMPLE = (
    "absolute-search-path",
    "installation-fails",
    "missing-library",
    "record-is-wrong",
    "undefined-symbol",
)
INSTALLED = ("installation-fails", "missing-library", "undefined-symbol")
"""Those whose verdicts depend on what is installed."""


def chosen(names: Iterable[str] = SAMPLE) -> list[Check[Any]]:
    every = {check.id: check for check in find_checks()}
    return [every[name] for name in names]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Wheels are unpacked into environments, and no interpreter is asked; gives the wheel."""
    search = "/opt/build/lib:$ORIGIN/../x"
    wheels = needy(tmp_path / "dist", search), provide_x(tmp_path)

    class HandMade(FreshPlace):
        def _install(self, package: Package) -> InstallReport:
            for wheel in wheels:
                install_by_hand(wheel, self.folder, rows=())
            return InstallReport(python="CPython 3.11", installer="hand")

        @property
        def installed(self) -> InstalledFolders:
            return InstalledFolders(site_packages=find_site(self.folder), prefix=self.folder)

    def choose(package: Package, settings: PlaceSettings) -> HandMade:
        return HandMade(settings)

    monkeypatch.setattr(places, "choose_place", choose)
    return wheels[0]


def judge_with(wheel: Path, settings: RunSettings, checks: Iterable[Check[Any]]) -> dict[str, Any]:
    run = Run.open([FileSource(path=wheel)], settings, Companions(()))
    try:
        (examination,) = run.examinations
        found = [examination.judge(examination.prepare(each)) for each in checks]
        return {each.check: (each.outcome, each.reason, tuple(each.lines())) for each in found}
    finally:
        run.close()


@pytest.mark.parametrize(
    ("static", "names"), [(True, SAMPLE), (False, INSTALLED), *slow((False, SAMPLE))]
)
def test_a_pair_of_checks_gives_the_verdicts_of_each_alone(
    place: Path, static: bool, names: tuple[str, ...]
) -> None:
    settings = RunSettings() if static else running()
    checks = chosen(names)
    alone = {check.id: judge_with(place, settings, [check])[check.id] for check in checks}
    outcomes = {outcome for outcome, _, _ in alone.values()}
    assert {Outcome.PASSED, Outcome.WARNED if static else Outcome.FAILED} <= outcomes
    for pair in permutations(checks, 2):
        for check, verdict in judge_with(place, settings, pair).items():
            assert verdict == alone[check], pair


def test_what_is_installed_answers_linkage_without_a_check_that_runs_the_package(
    place: Path,
) -> None:
    (check,) = [each for each in chosen() if each.id == "undefined-symbol"]
    static = judge_with(place, RunSettings(), [check])[check.id]
    installed = judge_with(place, running(), [check])[check.id]
    assert static[0] is not Outcome.FAILED
    assert installed[0] is Outcome.FAILED
    assert "x_lost" in installed[2][0]


def test_a_wheel_that_is_only_installed_did_not_run(place: Path) -> None:
    run = Run.open([FileSource(path=place)], running(), Companions(()))
    try:
        (examination,) = run.examinations
        (check,) = [each for each in chosen() if each.id == "installation-fails"]
        assert examination.judge(examination.prepare(check)).outcome is Outcome.PASSED
        assert [each.ran_on for each in examination.facts.everywhere] == [""]
    finally:
        run.close()


@pytest.mark.slow
def test_workers_give_the_verdicts_of_one_process(run: RunPytest, tmp_path: Path) -> None:
    wheel = needy(tmp_path)

    def judge(*options: str) -> dict[str, str]:
        run(wheel, "--binary-report", f"json:{tmp_path / 'result.json'}", *options)
        (package,) = json.loads((tmp_path / "result.json").read_text("utf-8"))["packages"]
        return {entry["check"]: json.dumps({**entry, "seconds": 0}) for entry in package["entries"]}

    everything = judge()
    assert judge("-n", "2") == everything
    (name, one), *_ = judge("-k", "undefined-symbol").items()
    assert one == everything[name]
