"""A package in several places: an item for each, facts of its own, and what differs named."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import binary_checks.plugin.collection  # noqa: F401 - else pytester forgets it, and loads it anew
from binary_checks import places
from binary_checks.model import (
    CleanSystem,
    InstallReport,
    LoaderAnswer,
    Package,
    ProbeAnswer,
    TargetPython,
    Wheel,
)
from binary_checks.places import HostPlace
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE

NAME = "demo-1.0-py3-none-any.whl"
PLACES = ("--binary-place", "image:bullseye", "--binary-place", "image:trixie")
REFUSED = {"state": "loader error", "detail": "version `GLIBC_2.36' not found"}
CLOSED: list[str] = []


class OldAndNew(HostPlace):
    """Two systems, of which one refuses what the other imports."""

    serves = (Wheel,)
    spelled = ("image",)

    @property
    def system(self) -> CleanSystem:
        name = self.settings.name.argument
        libc = {"bullseye": "glibc 2.31", "trixie": "glibc 2.41"}[name]
        return CleanSystem(name=name, libc=libc)

    @property
    def target(self) -> TargetPython:
        paths = {"platlib": "/site"}
        return TargetPython(
            executable=Path("/python"),
            version="3.11.7",
            system=self.system.title,
            paths=paths,
            operating_system=f"Debian GNU/Linux {self.system.name}",
        )

    def _install(self, package: Package) -> InstallReport | None:
        return None

    def run(self, script: Any, request: Mapping[str, object], **_: Any) -> ProbeAnswer:
        assert (script, request["name"]) == ("import_name", "demo")
        imported = {"state": "imported", "version": "1.0"}
        return ProbeAnswer(answer=REFUSED if self.system.name == "bullseye" else imported)

    def resolve(self, package: Package, paths: Any) -> tuple[LoaderAnswer, ...]:
        raise AssertionError(package, paths)

    def close(self) -> None:
        CLOSED.append(self.settings.name.label)
        super().close()


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(places, "PLACES", (OldAndNew, *places.PLACES))
    build_wheel(pytester.path, members={"demo.py": ""}, tags=PURE)
    CLOSED.clear()
    return pytester.runpytest_inprocess


def test_each_place_has_an_item_and_what_differs_is_named(run: Any) -> None:
    result = run(NAME, *PLACES, "-m", "runtime", "-v", "--binary-report", "json:r.json")
    result.stdout.fnmatch_lines(
        [
            "*profile default, image:bullseye, image:trixie, *",
            f"{NAME}::import-fails[[]image:bullseye[]] FAILED*",
            f"{NAME}::import-fails[[]image:trixie[]] PASSED*",
        ]
    )
    line = f"import-fails: {NAME}: import demo is refused by the loader: * [[]image:bullseye[]]"
    result.stdout.fnmatch_lines([f"*{line}"])
    difference = (
        f"{NAME}: import-fails: passes in image:trixie (image trixie (glibc 2.41)), "
        "fails in image:bullseye (image bullseye (glibc 2.31))"
    )
    result.stdout.fnmatch_lines([difference])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert sorted(set(CLOSED)) == ["image:bullseye", "image:trixie"]
    document = json.loads(Path("r.json").read_text())
    (package,) = document["packages"]
    imports = [each for each in package["entries"] if each["check"] == "import-fails"]
    assert [(each["place"], each["outcome"]) for each in imports] == [
        ("image:bullseye", "failed"),
        ("image:trixie", "passed"),
    ]
    assert difference in document["remarks"]
    assert document["places"] == ["image:bullseye", "image:trixie"]
    python = "CPython 3.11.7"
    assert (
        package["ran_on"]
        == f"image bullseye (glibc 2.31), {python} and image trixie (glibc 2.41), {python}"
    )
    systems = ["Debian GNU/Linux bullseye", "Debian GNU/Linux trixie"]
    assert package["operating_systems"] == systems


def test_one_place_is_asked_for_by_its_items_name_and_alone_has_items_as_ever(run: Any) -> None:
    result = run(f"{NAME}::import-fails[image:trixie]", *PLACES)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    run(f"{NAME}::import-fails", *PLACES).assert_outcomes(passed=1, failed=1)
    missing = run(f"{NAME}::import-fails[image:gone]", *PLACES)
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    run(f"{NAME}::import-fails", *PLACES[:2]).assert_outcomes(failed=1)
    result = run(NAME, *PLACES[:2], "-m", "runtime")
    assert "[image:bullseye]" not in result.stdout.str()


def test_what_does_not_run_is_judged_once_unless_running_answers_it_better(run: Any) -> None:
    result = run(NAME, *PLACES, "-m", "metadata", "-v")
    assert "[image:" not in "".join(line for line in result.outlines if "::" in line)
    result = run(NAME, *PLACES, "--collect-only", "-q", "-k", "missing-entry-point")
    for place in ("bullseye", "trixie"):
        result.stdout.fnmatch_lines([f"*::missing-entry-point[[]image:{place}[]]"])


def test_workers_share_packages_in_several_places(run: Any) -> None:
    result = run(f"{NAME}::no-such[image:trixie]", *PLACES, "-n", "1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


class Slow(OldAndNew):
    """Takes its time to install."""

    def _install(self, package: Package) -> InstallReport | None:
        time.sleep(0.1)
        return super()._install(package)


def test_no_check_is_charged_with_the_installation_it_waited_for(
    run: Any, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "PLACES", (Slow, *places.PLACES))
    options = ("--binary-report", "json:out.json", "--binary-place", "image:trixie")
    ran = pytester.inline_run(f"{NAME}::import-fails", *options)
    took = sum(
        each.duration
        for each in ran.getreports("pytest_runtest_logreport")
        if each.when != "teardown"
    )
    (package,) = json.loads((pytester.path / "out.json").read_bytes())["packages"]
    (entry,) = package["entries"]
    assert package["installing"] >= 0.1
    assert entry["seconds"] == pytest.approx(took - package["installing"], abs=1e-4)
