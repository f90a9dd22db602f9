"""A package decides how many modules it has, but not for how long all of them are imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, cast

import pytest

from binary_checks.checks.runtime import (
    gil_enabled_again,
    import_changes_directory,
    import_exits_badly,
    import_fails,
    loader_complains,
    shadowed_import,
    version_disagrees,
)
from binary_checks.model import (
    Ending,
    ImportReport,
    JudgedProjects,
    NotInspected,
    Place,
    ProbeAnswer,
    TargetPython,
)
from binary_checks.probes.import_name.reader import import_each
from fixtures.values import wheel

TIMEOUT = 300.0
NAMES = tuple(f"module_{number}" for number in range(1000))
LEFT_OUT = (
    "import of module_10, module_11, module_12 and 987 more was not tried: "
    "the earlier processes took all 3000 s that one package may take"
)


class SlowPlace:
    """A place in which each import takes all the time that one may take."""

    timeout = TIMEOUT
    paths: ClassVar = {"purelib": "site", "platlib": "site"}
    target = TargetPython(
        executable=Path("python"), version="3.13.0", free_threaded=True, paths=paths
    )

    def __init__(self) -> None:
        self.now = 0.0

    def run(self, script: str | Path, request: dict[str, object]) -> ProbeAnswer:
        del script, request
        self.now += TIMEOUT
        return ProbeAnswer(outcome=Ending.HUNG, detail=f"{TIMEOUT:g} s", answer={}, stderr="")

    def scrub(self, text: str) -> str:
        return text

    def shown(self, path: str) -> str:
        return path


@pytest.fixture(name="report")
def import_slowly() -> ImportReport:
    place = SlowPlace()
    return import_each(cast("Place", place), NAMES, now=lambda: place.now)


def test_no_import_begins_once_the_time_of_all_is_spent(report: ImportReport) -> None:
    assert len(report.steps) == 10
    assert report.untried == NAMES[10:]


def test_the_last_import_leaves_nothing_untried() -> None:
    place = SlowPlace()
    report = import_each(cast("Place", place), NAMES[:10], now=lambda: place.now)
    assert (len(report.steps), report.untried, report.limit) == (10, (), "")


@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        (import_fails, (wheel(), wheel(), JudgedProjects())),
        (import_exits_badly, ()),
        (import_changes_directory, ()),
        (loader_complains, ()),
        (shadowed_import, (wheel(),)),
        (version_disagrees, (wheel(),)),
        (gil_enabled_again, ()),
    ],
    ids=lambda value: getattr(value, "id", ""),
)
def test_no_check_passes_imports_that_were_not_tried(
    report: ImportReport, check: Any, arguments: tuple[Any, ...]
) -> None:
    assert NotInspected(sentence=LEFT_OUT) in list(check(report, *arguments))
