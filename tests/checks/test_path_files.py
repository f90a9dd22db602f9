"""The lines of ``.pth`` files are judged by what users have, and none is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.checks.python_code.path_files import editable_wheel, failing_path_file
from binary_checks.checks.python_code.top_level_modules import missing_top_level_module
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ImportReport,
    NotInspected,
    PathFile,
    PathFiles,
    Problem,
    PythonModules,
    Step,
    UnparsedSource,
    Wheel,
)
from fixtures.build_wheel import build_wheel
from fixtures.values import member, wheel

INSTALLED = "lib/python3.11/site-packages/demo.pth"
DEMO = wheel(members=(member("demo/__init__.py"),))


def one(*, folders: tuple[str, ...] = (), modules: tuple[str, ...] = ()) -> PathFiles:
    return PathFiles(files=(PathFile(path="demo.pth", folders=folders, modules=modules),))


def gather(folder: Path, members: dict[str, str | bytes]) -> PathFiles:
    with examine(build_wheel(folder, members=members)) as examination:
        return examination.get(PathFiles)


def test_path_files_are_read_as_site_reads_them(tmp_path: Path) -> None:
    text = (
        "\ufeff# a comment\n\nwin32\n/opt/demo/src\nimport os, _demo ; _demo.start()\n"
        "import\tsys\nimport sys.path as p; x\nimportlib\n"
    )
    found = gather(tmp_path, {"demo.pth": text, "demo/inner.pth": "/no", "demo/__init__.py": ""})
    assert found == PathFiles(
        files=(
            PathFile(
                path=INSTALLED,
                folders=("win32", "/opt/demo/src", "importlib"),
                modules=("os", "_demo", "sys", "sys.path"),
            ),
        )
    )


def test_a_path_file_that_is_too_long_is_not_read(tmp_path: Path) -> None:
    found = gather(tmp_path, {"demo.pth": "x" * 70_000, "demo/__init__.py": ""})
    reason = "it has 70000 bytes; more than 65536 are not read"
    unread = UnparsedSource(path=INSTALLED, reason=reason)
    assert found == PathFiles(unread=(unread,))
    gap = NotInspected(path=INSTALLED, sentence=reason)
    assert list(editable_wheel(DEMO, found)) == list(failing_path_file(DEMO, found, None)) == [gap]


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (one(folders=("/home/me/demo/src",)), "it adds /home/me/demo/src of the build machine"),
        (one(folders=("C:\\demo\\src",)), "it adds C:\\demo\\src of the build machine"),
        (one(modules=("__editable___demo_1_0_finder",)), "__editable___demo_1_0_finder, which"),
        (one(modules=("_editable_skbc_demo",)), "_editable_skbc_demo, which"),
        (one(modules=("_demo_editable_loader",)), "_demo_editable_loader, which"),
    ],
)
def test_editable_wheel_fires(files: PathFiles, sentence: str) -> None:
    (problem,) = editable_wheel(DEMO, files)
    assert isinstance(problem, Problem)
    assert problem.path == "demo.pth"
    assert problem.sentence.startswith("is of an editable installation: it ")
    assert sentence in problem.sentence


@pytest.mark.parametrize(
    "files",
    [
        one(folders=("win32", "win32/lib", "./plugins")),
        one(modules=("os", "sys", "_virtualenv", "editables")),
    ],
)
def test_editable_wheel_is_quiet_about_other_path_files(files: PathFiles) -> None:
    assert list(editable_wheel(DEMO, files)) == []


def test_a_promised_module_that_an_editable_wheel_lacks_has_the_same_cause() -> None:
    finder = wheel(members=(member("__editable___demo_finder.py"),))
    (lacking,) = missing_top_level_module(finder, PythonModules(top_level=("demo",)))
    (editable,) = editable_wheel(finder, one(modules=("__editable___demo_finder",)))
    assert isinstance(lacking, Problem)
    assert isinstance(editable, Problem)
    assert (lacking.cause, lacking.consequence) == (editable.cause, True)


def test_failing_path_file_fires_on_a_module_that_nobody_has() -> None:
    (problem,) = failing_path_file(DEMO, one(modules=("demo_start",)), None)
    assert problem == Problem(
        path="demo.pth",
        sentence="imports demo_start, which is not in the wheel: every start of Python prints an "
        "error",
    )


def test_failing_path_file_is_quiet_about_modules_that_users_have() -> None:
    known = one(modules=("demo", "os", "os.path", "sys", "distutils", "six"))
    assert list(failing_path_file(wheel_requiring("six"), known, None)) == []


def test_a_module_that_a_requirement_may_have_is_not_inspected() -> None:
    (gap,) = failing_path_file(wheel_requiring("pyyaml"), one(modules=("yaml",)), None)
    sentence = "imports yaml, which is not in the wheel; a requirement may have it"
    assert gap == NotInspected(path="demo.pth", sentence=sentence)


def wheel_requiring(name: str) -> Wheel:
    metadata = (("Name", "demo"), ("Version", "1.0"), ("Requires-Dist", name))
    return wheel(members=(member("demo/__init__.py"),), metadata=metadata)


def test_wheels_without_path_files_are_not_judged() -> None:
    with pytest.raises(NotApplicable, match=r"no \.pth file"):
        list(editable_wheel(DEMO, PathFiles()))
    with pytest.raises(NotApplicable, match=r"no \.pth file"):
        list(failing_path_file(DEMO, PathFiles(), None))


@pytest.mark.parametrize(
    ("line", "modules"),
    [
        ("import os, absent as a\n", ("os", "absent")),
        ("import os; from absent import name; os.x = 1\n", ("os", "absent")),
        ("import os, sys;p = os.path.join(sys.prefix, 'x'); import absent\n", ("os", "sys")),
        ('import sys; exec("try:\\n import absent\\nexcept ImportError: pass")\n', ("sys",)),
        ("import os; os.environ.get('X') and __import__('absent').shim()\n", ("os",)),
    ],
)
def test_only_imports_that_nothing_guards_count(
    tmp_path: Path, line: str, modules: tuple[str, ...]
) -> None:
    (file,) = gather(tmp_path, {"demo.pth": line, "demo/__init__.py": ""}).files
    assert file.modules == modules


def test_a_module_of_the_package_that_is_not_there() -> None:
    """A requirement cannot have it."""
    for package in (DEMO, wheel_requiring("six")):
        (problem,) = failing_path_file(package, one(modules=("demo.hook",)), None)
        assert isinstance(problem, Problem)
        assert problem.sentence.startswith("imports demo.hook, which is not in the wheel")


@pytest.mark.parametrize("folder", ["win32/lib", "win32\\lib", "./win32/lib"])
def test_a_folder_of_the_file_has_the_module(folder: str) -> None:
    """As in pywin32.pth."""
    package = wheel(members=(member("win32/lib/bootstrap.py"),))
    file = one(folders=("win32", folder), modules=("bootstrap",))
    assert list(failing_path_file(package, file, None)) == []


PRINTED = """Error processing line 2 of demo.pth:

  Traceback (most recent call last):
    File "<frozen site>", line 195, in addpackage
  ModuleNotFoundError: No module named 'yaml'

Remainder of file ignored"""


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (
            PRINTED,
            "line 2 fails at every start of Python: ModuleNotFoundError: No module named 'yaml'",
        ),
        (PRINTED.replace("demo.pth", "other.pth"), ""),
        ("", ""),
    ],
)
def test_what_python_prints_at_its_start_decides(printed: str, sentence: str) -> None:
    """Without the import, a module that no requirement has would be a problem."""
    report = ImportReport(python="CPython 3.11", steps=(Step(name="demo", stderr=printed),))
    found = list(failing_path_file(DEMO, one(modules=("yaml",)), report))
    assert [each.sentence for each in found] == ([sentence] if sentence else [])  # type: ignore[union-attr]


def test_output_that_may_be_cut_off_does_not_decide() -> None:
    step = Step(name="demo", stderr="\n".join(["warning"] * 20))
    report = ImportReport(python="CPython 3.11", steps=(step,))
    (found,) = failing_path_file(DEMO, one(modules=("absent",)), report)
    assert isinstance(found, Problem)
    assert "imports absent" in found.sentence
