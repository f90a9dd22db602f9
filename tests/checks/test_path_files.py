"""The lines of ``.pth`` files are judged by what users have, and none is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.checks.python_code.path_files import editable_wheel, failing_path_file
from binary_checks.checks.python_code.top_level_modules import missing_top_level_module
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Ending,
    ImportReport,
    Level,
    NotInspected,
    PathFile,
    PathFiles,
    Problem,
    PythonModules,
    Step,
    Wheel,
)
from fixtures.build_wheel import build_wheel
from fixtures.values import member, only, wheel

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
                unfollowed="line 7: x",
            ),
        )
    )


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
    problem = only(Problem, editable_wheel(DEMO, files))
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
    for judged in (editable_wheel(DEMO, PathFiles()), failing_path_file(DEMO, PathFiles(), None)):
        with pytest.raises(NotApplicable, match=r"no \.pth file"):
            list(judged)


def test_a_promised_module_that_an_editable_wheel_lacks_has_the_same_cause() -> None:
    finder = wheel(members=(member("__editable___demo_finder.py"),))
    lacking = only(Problem, missing_top_level_module(finder, PythonModules(top_level=("demo",))))
    editable = only(Problem, editable_wheel(finder, one(modules=("__editable___demo_finder",))))
    assert (lacking.cause, lacking.consequence) == (editable.cause, True)


def test_failing_path_file_fires_on_a_module_that_nobody_has() -> None:
    end = "which is not in the wheel: every start of Python prints an error"
    for package, module in (
        (DEMO, "demo_start"),
        (DEMO, "demo.hook"),
        (wheel_requiring("six"), "demo.hook"),  # which a requirement cannot have
    ):
        assert list(failing_path_file(package, one(modules=(module,)), None)) == [
            Problem(path="demo.pth", sentence=f"imports {module}, {end}")
        ]


def test_modules_that_users_have_are_quiet_and_those_a_requirement_may_have_a_gap() -> None:
    known = one(modules=("demo", "os", "os.path", "sys", "distutils", "six"))
    assert list(failing_path_file(wheel_requiring("six"), known, None)) == []
    sentence = "imports yaml, which is not in the wheel; a requirement may have it"
    assert list(failing_path_file(wheel_requiring("pyyaml"), one(modules=("yaml",)), None)) == [
        NotInspected(path="demo.pth", sentence=sentence)
    ]


def wheel_requiring(name: str) -> Wheel:
    metadata = (("Name", "demo"), ("Version", "1.0"), ("Requires-Dist", name))
    return wheel(members=(member("demo/__init__.py"),), metadata=metadata)


@pytest.mark.parametrize(
    ("line", "modules", "chosen"),
    [
        ("import os, absent as a", ("os", "absent"), ()),
        ("import os; from absent import name; x = name", ("os", "absent"), ()),
        ("import os; x = os.path.join('a', 'b'); import absent", ("os", "absent"), ()),
        ("import sys; exec('import absent')", ("sys", "absent"), ()),
        ("import importlib; importlib.import_module('absent')", ("importlib", "absent"), ()),
        ("import os; __import__('absent.hook').hook.start()", ("os", "absent.hook"), ()),
        ('import os; exec("try:\\n import a\\nexcept ImportError: pass")', ("os",), ("a",)),
        ("import os; os.environ.get('X') and __import__('absent').shim()", ("os",), ("absent",)),
        ("import os; x = __import__('a') if os.getenv('X') else 0", ("os",), ("a",)),
    ],
)
def test_imports_are_followed(
    tmp_path: Path, line: str, modules: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    (file,) = gather(tmp_path, {"demo.pth": f"{line}\n", "demo/__init__.py": ""}).files
    assert file == PathFile(path=INSTALLED, modules=modules, chosen=chosen)


NAMESPACE = (
    "import sys, types, os;has_mfs = sys.version_info > (3, 5);p = os.path.join(sys._getframe(1)."
    "f_locals['sitedir'], *('zope',));importlib = has_mfs and __import__('importlib.util');has_mfs "
    "and __import__('importlib.machinery');m = has_mfs and sys.modules.setdefault('zope', "
    "importlib.util.module_from_spec(importlib.machinery.PathFinder.find_spec('zope', "
    "[os.path.dirname(p)])));m = m or sys.modules.setdefault('zope', types.ModuleType('zope'));mp "
    "= (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p)\n"
)
"""zope.proxy-4.6.1-py2.7-nspkg.pth; all that setuptools wrote are alike."""
DISTUTILS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == "
    "'local'; enabled and __import__('_distutils_hack').add_shim(); \n"
)
COVERAGE = (
    'import sys; exec(\'import os\\n\\nif os.getenv("COVERAGE_PROCESS_START") or os.getenv('
    '"COVERAGE_PROCESS_CONFIG"):\\n try:\\n  import coverage\\n except:\\n  pass\\n else:\\n  '
    'coverage.process_startup(slug="pth")\')\n'
)


@pytest.mark.parametrize(
    "text",
    [
        NAMESPACE,
        DISTUTILS,
        COVERAGE,
        "import demo; demo._embed_via_environment()\r\n",
        "# the finder of a package\n\nimport\tdemo\n",
        "\ufeff/opt/caf\u00e9\nimport demo\n",
    ],
)
def test_published_path_files_are_quiet(tmp_path: Path, text: str) -> None:
    hooks = {"_distutils_hack/__init__.py": "", "coverage/__init__.py": "", "demo/__init__.py": ""}
    assert judge_file(tmp_path, text, hooks) == ([], [])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import (\n", "line 1 does not compile: invalid syntax"),
        ("demo\nimport sys\0x\n", "line 2 does not compile"),
        ("import os; exec('import (')\n", "line 1 does not compile"),
        ("import sys; sys.exit(3)\n", "line 1 ends Python: sys.exit(3)"),
        ("import os; os._exit(0)\n", "line 1 ends Python: os._exit(0)"),
        ("import os; os.kill(os.getpid(), 9)\n", "line 1 ends Python: os.kill(os.getpid(), 9)"),
        ("import demo\n".encode("utf-16"), "is not UTF-8"),
        ("# caf\u00e9\nimport demo\n".encode("latin-1"), "is not UTF-8"),
        ("\ufeffimport absent\n", "imports absent, which is not in the wheel"),
        ("import sys; exec('import absent')\n", "imports absent, which is not in the wheel"),
        ("# padding\n" * 9_000 + "import absent\n", "imports absent, which is not in the wheel"),
    ],
)
def test_what_fails_for_certain_is_an_error(
    tmp_path: Path, text: str | bytes, sentence: str
) -> None:
    (problem,), gaps = judge_file(tmp_path, text)
    assert sentence in problem
    assert not gaps


@pytest.mark.parametrize(
    "line",
    [
        "import os; os.no_such_name()",
        "import os; x = os.no_such_name",
        "import os.nothing",
        "import os; from os import nothing",
        "import sys; 1/0",
        "import sys; sys.modules['json'] = None",
        "import sys; sys.version_info > (3,) and no_such_name",
        "import sys; exec(sys.argv[0])",
        "import os; os.getenv('X') and os._exit(1)",
        "import os; __import__('sys').exit()",
        "import os; __import__(os.getenv('X'))",
        "import os; os.environ['X']",
        "import os; os.getenv('X') and __import__('absent')",
        f"import demo{'.a' * 40}",
    ],
)
def test_what_cannot_be_followed_is_not_inspected(tmp_path: Path, line: str) -> None:
    problems, gaps = judge_file(tmp_path, f"{line}\n")
    assert problems == []
    assert len(gaps) == 1


@pytest.mark.parametrize("tag", ["py2-none-any", "cp399-none-any"])
def test_the_syntax_of_a_python_that_is_not_ours_is_not_inspected(tmp_path: Path, tag: str) -> None:
    text = "import sys; print 'started'\n"
    problems, (gap,) = judge_file(tmp_path, text, tags=(tag,))
    assert problems == []
    assert "may fail at every start of Python: line 1 does not compile" in gap


@pytest.mark.parametrize(
    ("tag", "line", "fault"),
    [
        ("py2-none-any", "import sys; sys.exit()", "line 1 ends Python: sys.exit()"),
        ("cp399-none-any", "import sys; sys.exit()", "line 1 ends Python: sys.exit()"),
        ("cp38-none-any", "import (", "line 1 does not compile"),  # by ours
    ],
)
def test_a_line_ends_any_python_and_an_older_ones_line_is_compiled(
    tmp_path: Path, tag: str, line: str, fault: str
) -> None:
    (problem,), gaps = judge_file(tmp_path, f"{line}\n", tags=(tag,))
    assert fault in problem
    assert not gaps


def test_windows_may_have_the_encoding_of_a_file(tmp_path: Path) -> None:
    content = "# caf\u00e9\n".encode("latin-1")
    wheel = build_wheel(tmp_path, members={"demo.pth": content}, tags=("py3-none-win_amd64",))
    with examine(wheel) as examination:
        found = failing_path_file(examination.get(Wheel), examination.get(PathFiles), None)
        assert [each.level for each in found if isinstance(each, Problem)] == [Level.WARNING]


def judge_file(
    folder: Path,
    text: str | bytes,
    members: dict[str, str | bytes] | None = None,
    tags: tuple[str, ...] = ("py3-none-any",),
) -> tuple[list[str], list[str]]:
    """Return the sentences of the problems, and of what was not inspected."""
    every: dict[str, str | bytes] = {"demo/__init__.py": "", **(members or {}), "demo.pth": text}
    with examine(build_wheel(folder, members=every, tags=tags)) as examination:
        found = list(failing_path_file(examination.get(Wheel), examination.get(PathFiles), None))
    problems = [each.sentence for each in found if isinstance(each, Problem)]
    return problems, [each.sentence for each in found if isinstance(each, NotInspected)]


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


NEWER = """Error in import line from /opt/demo/lib/python3.15/site-packages/demo.pth: import yaml
ModuleNotFoundError: No module named 'yaml'"""
NO_START = """Fatal Python error: init_import_site: Failed to import the site module
Python runtime state: initialized
Traceback (most recent call last):
  File "<string>", line 1, in <module>
SystemExit: 3"""


@pytest.mark.parametrize(
    ("printed", "sentence"),
    [
        (
            NEWER,
            "a line fails at every start of Python: ModuleNotFoundError: No module named 'yaml'",
        ),
        (
            NO_START,
            "with it, Python does not start: SystemExit: 3",
        ),
        ("warning\n" * 20 + PRINTED, "line 2 fails at every start of Python"),
    ],
)
def test_an_error_at_start_is_reported_whatever_else_was_printed(
    printed: str, sentence: str
) -> None:
    step = Step(name="demo", outcome=Ending.EXITED, stderr=printed)
    report = ImportReport(python="CPython 3.15", steps=(step,))
    problem = only(Problem, failing_path_file(DEMO, one(modules=("demo",)), report))
    assert problem.sentence.startswith(sentence)


@pytest.mark.parametrize(
    "step",
    [
        Step(name="demo", stderr="\n".join(["warning"] * 20)),  # the error may be cut off
        Step(name="demo", outcome=Ending.CRASHED, detail="SIGKILL"),  # before or after the start
    ],
)
def test_a_python_that_may_not_have_started_does_not_decide(step: Step) -> None:
    report = ImportReport(python="CPython 3.11", steps=(step,))
    found = only(Problem, failing_path_file(DEMO, one(modules=("absent",)), report))
    assert "imports absent" in found.sentence


def test_a_python_that_started_decides() -> None:
    report = ImportReport(python="CPython 3.11", steps=(Step(name="demo"),))
    file = PathFile(path="demo.pth", fault="line 1 ends Python: sys.exit()", unfollowed="line 2: x")
    assert list(failing_path_file(DEMO, PathFiles(files=(file,)), report)) == []
