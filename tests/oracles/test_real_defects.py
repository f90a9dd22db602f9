"""One defect of a real build is one fault, led by the line that says it best."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.checks.runtime import import_fails
from binary_checks.model import (
    CheckResult,
    Ending,
    ImportReport,
    JudgedProjects,
    Linkage,
    Outcome,
    Problem,
    Step,
    Wheel,
)
from binary_checks.reports.faults import Fault, fault_line, fold
from fixtures.build_wheel import build_wheel

MODULES = [f"demo/_{name}.cpython-311-x86_64-linux-gnu.so" for name in "abc"]
LIBRARIES = ["demo.libs/libone-12345678.so.1", "demo.libs/libtwo-12345678.so.1"]

needs_tools = pytest.mark.skipif(
    not (sys.platform == "linux" and shutil.which("gcc") and shutil.which("patchelf")),
    reason="needs gcc and patchelf on Linux",
)
pytestmark = needs_tools


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three extension modules that need two libraries in demo.libs, as auditwheel leaves them."""
    folder = tmp_path_factory.mktemp("built")
    for name in ("demo", "demo.libs"):
        (folder / name).mkdir()
    (folder / "demo/__init__.py").write_text("")
    for library in LIBRARIES:
        name = library.rpartition("/")[2]
        (folder / "x.c").write_text(f"int {name[3:6]}(void) {{ return 1; }}")
        soname = f"-Wl,-soname,{name}"
        run("gcc", "-shared", "-fPIC", soname, folder / "x.c", "-o", folder / library)
    for module in MODULES:
        (folder / "x.c").write_text(
            f"int one(void); int two(void);"
            f"void *PyInit_{module[5:7]}(void) {{ return one() + two() ? 0 : (void *) 1; }}"
        )
        objects = [folder / "x.c", *(folder / library for library in LIBRARIES)]
        run("gcc", "-shared", "-fPIC", *objects, "-o", folder / module)
        run("patchelf", "--set-rpath", "$ORIGIN/../demo.libs", folder / module)
    return folder


def pack(built: Path, target: Path, *, without: str = "", **changes: object) -> Path:
    """Make a wheel of what was built, after an edit of the defect's."""
    names = ["demo/__init__.py", *MODULES, *LIBRARIES]
    members = {name: (built / name).read_bytes() for name in names if (built / name).is_file()}
    members = {name: data for name, data in members.items() if not without or without not in name}
    tags = ["cp311-cp311-manylinux_2_34_x86_64"]
    return build_wheel(target, members=members, tags=tags, **changes)


def faults(wheel: Path) -> tuple[Fault, ...]:
    with examine(wheel) as examination:
        return fold(judge(examination))


def edit_copies(built: Path, tmp_path: Path, edit: Callable[[Path], None]) -> Path:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    for module in MODULES:
        edit(copy / module)
    return copy


def test_what_was_built_is_healthy(built: Path, tmp_path: Path) -> None:
    assert faults(pack(built, tmp_path)) == ()


def test_a_dropped_rpath_is_one_line(built: Path, tmp_path: Path) -> None:
    copy = edit_copies(built, tmp_path, lambda path: run("patchelf", "--remove-rpath", path))
    (fault,) = faults(pack(copy, tmp_path))
    assert fault.folded == ()
    assert fault_line("demo.whl", fault).startswith(
        f"missing-library: demo.whl: {MODULES[0]}: needs libone-12345678.so.1, "
        "libtwo-12345678.so.1 and does not find them (it has no search path): "
        f"{LIBRARIES[0]}, {LIBRARIES[1]} are in the package"
    )
    assert fault.shown.group.paths == tuple(MODULES)


def test_a_search_path_that_leads_astray_is_one_line(built: Path, tmp_path: Path) -> None:
    astray = "$ORIGIN/../demo_libs:/opt/build/demo.libs"
    copy = edit_copies(built, tmp_path, lambda path: run("patchelf", "--set-rpath", astray, path))
    (fault,) = faults(pack(copy, tmp_path))
    assert fault.shown.check == "missing-library"
    assert "(searched demo_libs/)" in fault.shown.group.sentence
    assert fault.also() == "absolute-search-path (3 files), missing-search-directory (3 files)"


def test_one_module_without_its_rpath_is_one_line(built: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built, copy)
    run("patchelf", "--set-rpath", "$ORIGIN/../elsewhere", copy / MODULES[1])
    (fault,) = faults(pack(copy, tmp_path))
    assert fault.shown.check == "missing-search-directory"
    assert fault.shown.group.paths == (MODULES[1],)
    assert fault.also() == "load-order-dependent"


def test_a_lost_folder_is_one_line(built: Path, tmp_path: Path) -> None:
    (fault,) = faults(pack(built, tmp_path, without="demo.libs/"))
    assert fault.folded == ()
    assert fault_line("demo.whl", fault).startswith(
        f"missing-library: demo.whl: {MODULES[0]}: needs libone-12345678.so.1, "
        "libtwo-12345678.so.1, which neither the package nor manylinux_2_34_x86_64 provides "
        "(searched demo.libs/)"
    )
    assert fault.shown.group.paths == tuple(MODULES)
    listed = dict.fromkeys(LIBRARIES, "sha256=stale,1")
    (fault,) = faults(pack(built, tmp_path, without="demo.libs/", record_changes=listed))
    assert fault.shown.check == "missing-library"
    assert fault.also() == "record-is-wrong (2 files)"


def test_one_lost_library_is_one_line(built: Path, tmp_path: Path) -> None:
    (fault,) = faults(pack(built, tmp_path, without="libtwo"))
    assert fault.shown.check == "missing-library"
    assert fault.shown.group.sentence.startswith("needs libtwo-12345678.so.1, which neither")
    assert fault.shown.group.paths == tuple(MODULES)


def test_a_library_that_is_no_longer_needed_by_name_is_one_line(
    built: Path, tmp_path: Path
) -> None:
    name = LIBRARIES[1].rpartition("/")[2]
    copy = edit_copies(built, tmp_path, lambda path: run("patchelf", "--remove-needed", name, path))
    (fault,) = faults(pack(copy, tmp_path))
    assert fault.shown.check == "undefined-symbol"
    assert fault.shown.group.paths == tuple(MODULES)


def test_an_import_that_fails_for_a_lost_folder_is_folded(built: Path, tmp_path: Path) -> None:
    detail = "libone-12345678.so.1: cannot open shared object file: No such file or directory"
    report = ImportReport(
        python="CPython 3.11.7",
        steps=(Step(name="demo", outcome=Ending.LOADER_ERROR, detail=detail),),
    )
    with examine(pack(built, tmp_path, without="demo.libs/")) as examination:
        verdicts: list[CheckResult] = list(judge(examination))
        facts = examination.facts
        found = import_fails(report, facts.get(Wheel), facts.get(Linkage), JudgedProjects())
        problems = tuple(each for each in found if isinstance(each, Problem))
    failed = CheckResult(
        check="import-fails",
        family="runtime",
        outcome=Outcome.FAILED,
        inspected=1,
        problems=problems,
    )
    (fault,) = fold([*verdicts, failed])
    assert fault.shown.check == "missing-library"
    assert fault.also() == "import-fails"


def test_a_stripped_build_for_coverage_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(
        "int answer(void) { return 42; } void *PyInit__a(void) { return 0; }"
    )
    module = tmp_path / "x.so"
    run("gcc", "-shared", "-fPIC", "--coverage", "-s", tmp_path / "x.c", "-o", module)
    wheel = build_wheel(tmp_path, members={MODULES[0]: module.read_bytes()})
    with examine(wheel, run=False) as examination:
        found = {each.check: each.problems for each in judge(examination)}
    assert len(found["built-for-coverage"]) == 1
