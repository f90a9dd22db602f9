"""Every extension module is loaded, and the one that brings the process down is named."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks.model import Ending, ProbeAnswer
from binary_checks.places import host_place
from binary_checks.probes.importable import find_extensions
from binary_checks.probes.load_extensions.reader import load_each
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import Entry, build_wheel
from fixtures.environments import PURE, FilledPlace, open_offline

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "x86_64-linux" not in SUFFIX,
    reason="the extension modules are ELF for x86_64",
)


def find_real() -> Path:
    """An extension module of the standard library, which can be put under another package."""
    found = importlib.util.find_spec("_heapq")
    if found is None or not str(found.origin).endswith(SUFFIX):
        pytest.skip("this interpreter has its extension modules built in")
    return Path(str(found.origin))


def make(name: str, **fields: Any) -> bytes:
    return build_elf(exports=[ElfSymbol(f"PyInit_{name}")], **fields)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    real = find_real()
    heapq = real.read_bytes()
    members: dict[str, bytes | str | Entry] = {
        "demo/__init__.py": "",
        f"demo/{real.name}": heapq,
        f"demo/missing{SUFFIX}": make("missing", needed=["libabsent.so.1"]),
        f"demo/undefined{SUFFIX}": make("undefined", imports=[ElfSymbol("nobody_has_this")]),
        f"demo/nameless{SUFFIX}": build_elf(exports=[ElfSymbol("PyInit_other")]),
        "demo/helper.so": build_elf(exports=[ElfSymbol("help")]),
        "crashing/__init__.py": "import os\nos.abort()\n",
        f"crashing/{real.name}": heapq,
    }
    folder = tmp_path_factory.mktemp("extensions")
    with open_offline(build_wheel(folder, tags=PURE, members=members)) as opened:
        yield opened


@linux
def test_a_tagged_file_is_an_extension_and_a_bare_library_is_none(environment: FilledPlace) -> None:
    found = find_extensions(environment.wheel, environment.target.extension_suffixes)
    stems = [path.partition(".")[0] for path in found]
    names = ["_heapq", "missing", "nameless", "undefined"]
    assert stems == ["crashing/_heapq", *(f"demo/{name}" for name in names)]


@linux
def test_each_extension_has_its_own_verdict(environment: FilledPlace) -> None:
    found = find_extensions(environment.wheel, environment.target.extension_suffixes)
    report = load_each(environment, found)
    ends = {step.name.partition(".")[0]: (step.outcome, step.detail) for step in report.steps}
    assert ends["demo/_heapq"] == (Ending.OK, "")
    # Its package cannot be imported; that is not the extension's fault.
    assert ends["crashing/_heapq"] == (Ending.OK, "")
    assert ends["demo/nameless"] == (Ending.LOADER_ERROR, "exports no PyInit_nameless")
    outcome, detail = ends["demo/missing"]
    assert (outcome, "libabsent.so.1" in detail) == (Ending.LOADER_ERROR, True)
    outcome, detail = ends["demo/undefined"]
    assert (outcome, "nobody_has_this" in detail) == (Ending.LOADER_ERROR, True)
    assert detail.startswith("demo/undefined")
    assert report.untried == ()
    assert f"demo/{find_real().name}" in (report.libraries or ())


Row = Mapping[str, Any]


@pytest.fixture
def load_scripted(environment: FilledPlace, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load with a probe that dies as told: by path, and whether it is alone in its process."""

    def load(
        paths: tuple[str, ...], deaths: Mapping[tuple[str, bool], Ending]
    ) -> tuple[list[tuple[str, str, str]], tuple[str, ...]]:
        def run_probe(python: Path, script: str, request: Any, **_: Any) -> ProbeAnswer:
            asked = [row["path"] for row in request["extensions"]]
            done: list[Row] = []
            for path in asked:
                death = deaths.get((path, len(asked) == 1))
                if death is not None:
                    answer = {"done": done, "current": {"path": path, "parent": ""}}
                    return ProbeAnswer(answer=answer, outcome=death, detail="SIGSEGV")
                done.append({"path": path, "state": "loaded", "gil_enabled": None})
            end = deaths.get(("", len(asked) == 1), Ending.OK)
            return ProbeAnswer(
                answer={"done": done, "finished": True}, outcome=end, detail="SIGBUS"
            )

        monkeypatch.setattr(host_place, "run_probe", run_probe)
        report = load_each(environment, paths)
        steps = [(step.name, step.outcome.value, step.detail) for step in report.steps]
        return steps, report.untried

    return load


FIRST, LAST = ("a.so", "ok", ""), ("c.so", "ok", "")


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        (
            {("b.so", False): Ending.CRASHED, ("b.so", True): Ending.CRASHED},
            [FIRST, ("b.so", "crashed", "SIGSEGV"), LAST],
        ),
        (
            {("b.so", False): Ending.CRASHED},
            [FIRST, ("b.so", "crashed", "SIGSEGV, though not when it is loaded alone"), LAST],
        ),
        ({("b.so", False): Ending.HUNG}, [FIRST, ("b.so", "ok", ""), LAST]),
        (
            {("", False): Ending.CRASHED},
            [FIRST, ("b.so", "ok", ""), LAST, ("", "crashed", "SIGBUS")],
        ),
    ],
    ids=["a crash", "only after others", "time runs out for all", "at the end"],
)
def test_after_a_bad_end_the_rest_is_loaded_and_the_one_to_blame_is_named(
    load_scripted: Any, deaths: Any, expected: list[tuple[str, str, str]]
) -> None:
    assert load_scripted(("a.so", "b.so", "c.so"), deaths) == (expected, ())


def test_patience_with_crashes_ends(load_scripted: Any) -> None:
    paths = tuple(f"x{index}.so" for index in range(9))
    deaths = {(path, alone): Ending.CRASHED for path in paths for alone in (False, True)}
    steps, untried = load_scripted(paths, deaths)
    assert [name for name, _, _ in steps] == list(paths[:5])
    assert untried == paths[5:]
