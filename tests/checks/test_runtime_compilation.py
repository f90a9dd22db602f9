"""The target interpreter compiles the Python files of a package, and the checks say which fail."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from binary_checks.checks.runtime import import_fails, invalid_syntax, syntax_newer_than_promised
from binary_checks.errors import NotApplicable
from binary_checks.model import CompiledModules, JudgedProjects, Level, NotInspected, Problem
from binary_checks.probes.compile_modules.reader import compile_modules
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, UnpackedPlace, read_wheel, within
from fixtures.values import only

DEEP = "-" * 99_999 + "1\n"  # which no compiler takes, or which crashes it
BROKEN = "def f(:\n    pass\n"
Compile = Callable[..., tuple[UnpackedPlace, CompiledModules]]
Judge = Callable[..., list[Any]]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    def compile_wheel(
        members: Mapping[str, Any], **wheel: Any
    ) -> tuple[UnpackedPlace, CompiledModules]:
        wheel = {"tags": ("py3-none-any",), "root_is_purelib": True, **wheel}
        path = build_wheel(tmp_path, members=members, **wheel)
        place = UnpackedPlace(read_wheel(path), tmp_path / "environment")
        return place, compile_modules(place, place.wheel)

    return compile_wheel


@pytest.fixture
def judge(compiled: Compile) -> Judge:
    def judge_wheel(members: Mapping[str, Any], **wheel: Any) -> list[Any]:
        place, report = compiled(members, **wheel)
        return list(invalid_syntax(report, place.wheel))

    return judge_wheel


@pytest.fixture
def judge_older(compiled: Compile) -> Judge:
    def judge_wheel(members: Mapping[str, Any], **wheel: Any) -> list[Any]:
        return list(syntax_newer_than_promised(compiled(members, **wheel)[1]))

    return judge_wheel


def requiring(python: str) -> str:
    head = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"
    return f"{head}Requires-Python: {python}\n"


def shorten(path: str) -> str:
    return path.rpartition("site-packages/")[2]


def told(found: list[Any]) -> list[tuple[str, str, Level]]:
    assert all(isinstance(each, Problem) for each in found), found
    return [(shorten(each.path), each.sentence, each.level) for each in found]


def test_a_file_that_importing_the_package_imports_is_an_error(judge: Judge) -> None:
    members = {
        "demo/__init__.py": "from demo.core import run\n",
        "demo/core.py": "with open('x') as f:\n    from . import inner\n",
        "demo/inner.py": BROKEN,
    }
    ((path, sentence, level),) = told(judge(members))
    assert path == "demo/inner.py"
    assert sentence.startswith("line 1 does not compile: ")
    assert sentence.endswith(": `import demo` fails")
    assert level is Level.ERROR


@pytest.mark.parametrize(
    "importing",
    [
        "",
        "def late():\n    import demo.inner\n",
        "import sys\nif sys.version_info >= (3, 12):\n    from demo.inner import x\n",
        "try:\n    import demo.inner\nexcept SyntaxError:\n    pass\n",
    ],
)
def test_a_file_that_is_not_always_imported_is_a_warning(judge: Judge, importing: str) -> None:
    members = {"demo/__init__.py": importing, "demo/inner.py": BROKEN}
    ((path, _, level),) = told(judge(members))
    assert (path, level) == ("demo/inner.py", Level.WARNING)


def test_a_file_that_a_sound_module_always_imports_is_an_error(judge: Judge) -> None:
    members = {
        "demo/__init__.py": "",
        "demo/web.py": "from .util import x\n",
        "demo/util.py": BROKEN,
    }
    ((path, sentence, level),) = told(judge(members))
    assert (path, level) == ("demo/util.py", Level.ERROR)
    assert sentence.endswith(": `import demo.web` fails")


@pytest.mark.parametrize(
    "quiet",
    [
        {"demo/__init__.py": "import sys\nif sys.version_info < (3,):\n    from . import web\n"},
        {"demo/web.py": "with optional():\n    from .util import x\n"},
        {"demo/web.py": "", "demo/tests/web.py": "import demo.util\n"},
    ],
)
def test_a_sound_module_that_others_choose_is_a_warning(
    judge: Judge, quiet: dict[str, str]
) -> None:
    members = {
        "demo/__init__.py": "",
        "demo/web.py": "from .util import x\n",
        "demo/util.py": BROKEN,
    }
    ((_, _, level),) = told(judge({**members, **quiet}))
    assert level is Level.WARNING


def test_the_module_of_a_command_is_imported(judge: Judge) -> None:
    members = {"demo/__init__.py": "", "demo/cli.py": "print 1\n"}
    points = "[console_scripts]\ndemo = demo.cli:main\n"
    ((_, sentence, level),) = told(judge(members, entry_points=points))
    assert "Missing parentheses" in sentence
    assert sentence.endswith("`import demo.cli` fails")
    assert level is Level.ERROR


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"x = 1\n<<<<<<< HEAD\n", "line 2 ", "invalid syntax"),
        (b"x = 1\ny = '\xff'\n", "line 2 ", "codec can't decode byte 0xff"),
        (b"# coding: nonsense\n", "", "unknown encoding"),
        (b"x\0y", "", "null bytes"),
        (b"def f(a, a): pass", "line 1 ", "duplicate argument 'a'"),
        (b"def f():\n\tx\n        y\n", "line 3 ", "inconsistent use of tabs"),
        (b"x = 1\nreturn x\n", "line 2 ", "'return' outside function"),
    ],
)
def test_what_does_not_compile(judge: Judge, content: bytes, line: str, reason: str) -> None:
    ((_, sentence, _),) = told(judge({"demo/__init__.py": content}))
    assert sentence.startswith(f"{line}does not compile: ")
    assert reason in sentence


@pytest.mark.parametrize(
    "path",
    [
        "demo/tests/test_old.py",
        "demo/{{ name }}/setup.py",
        "demo/__init__.tmpl.py",
        "demo/python-2/old.py",
        "demo-1.0.data/scripts/old.py",
    ],
)
def test_what_no_import_finds_and_tests_are_left_out(judge: Judge, path: str) -> None:
    assert judge({"demo/__init__.py": "x = 1\n", path: BROKEN}) == []


def test_a_file_that_may_be_kept_for_later_pythons_is_not_inspected(judge: Judge) -> None:
    later = "type X = int | $\n"  # of a grammar that no Python has yet
    gated = {
        "demo/__init__.py": "try:\n    from . import _types\nexcept SyntaxError: ...\n",
        "demo/_types.py": later,
    }
    finding = only(NotInspected, judge(gated))
    assert finding.sentence.startswith(f"does not compile on Python 3.{sys.version_info[1]};")
    assert finding.sentence.endswith("; it may on a later Python that the package supports")
    (both,) = judge({**gated, "demo/_more.py": later})
    assert both.sentence.startswith("2 files do not compile on Python 3.")
    assert both.sentence.endswith("; they may on a later Python that the package supports")
    always = {"demo/__init__.py": "from . import _types\n", "demo/_types.py": later}
    ((path, _, level),) = told(judge(always))
    assert (path, level) == ("demo/_types.py", Level.ERROR)


def test_what_the_compiler_cannot_take_is_not_inspected_and_the_rest_is(judge: Judge) -> None:
    members = {"demo/__init__.py": "", "demo/a.py": "-" * 99_999, "demo/b.py": BROKEN}
    nested, broken = sorted(judge(members), key=lambda each: each.path)
    assert isinstance(nested, NotInspected)
    assert "nested too deeply" in nested.sentence or "crashes" in nested.sentence
    assert (shorten(broken.path), broken.level) == ("demo/b.py", Level.WARNING)


@pytest.mark.slow
def test_compilation_goes_on_behind_a_file_that_takes_too_long(tmp_path: Path) -> None:
    members = {"demo/a.py": BROKEN, "demo/b.py": "", "demo/c.py": BROKEN}
    path = build_wheel(tmp_path, members=members, tags=PURE, root_is_purelib=True)
    place = UnpackedPlace(read_wheel(path), tmp_path / "environment")
    slow = place.site_packages / "demo" / "b.py"
    slow.unlink()
    os.mkfifo(slow)  # whoever opens it waits for a writer
    report = compile_modules(within(place, 2), place.wheel)
    assert [shorten(each.path) for each in report.broken] == ["demo/a.py", "demo/c.py"]
    (left,) = report.uncompiled
    assert (shorten(left.path), left.reason) == ("demo/b.py", "compiling it takes longer than 2 s")


def test_files_without_number_are_counted(judge: Judge) -> None:
    members = {f"demo/m{number}.py": "return\n" for number in range(1010)}
    found = judge(members)
    assert sum(isinstance(each, Problem) for each in found) == 1000
    assert found[-1] == NotInspected(sentence="10 more files do not compile")
    with pytest.raises(NotApplicable):
        judge({"demo/a.txt": "a"})  # no Python


@pytest.mark.parametrize(
    ("python", "code"),
    [
        (">=3.7", "if (a := 1): pass\n"),
        (">=3.7", "def f(a, /): pass\n"),
        (">=3.6", "match 1:\n    case 1: pass\n"),
        (">=3.8", "with (open('a') as f, open('b') as g): pass\n"),
        (">=3.9", "match 1:\n    case 1: pass\n"),
        (">=3.10", "try: pass\nexcept* ValueError: pass\n"),
    ],
)
def test_syntax_that_the_oldest_promised_python_does_not_know(
    judge_older: Judge, python: str, code: str
) -> None:
    members = {"demo/__init__.py": "import demo.a\n", "demo/a.py": code}
    if python == ">=3.10":
        pytest.importorskip("tomllib", reason="Python 3.10 does not parse except* itself")
    ((path, sentence, level),) = told(judge_older(members, metadata=requiring(python)))
    assert (path, level) == ("demo/a.py", Level.ERROR)
    assert f"does not compile on Python {python[2:]}, which the package promises" in sentence
    newer = requiring(">=3.11")
    assert judge_older(members, metadata=newer) == []


def test_syntax_that_only_a_branch_imports_or_that_no_promise_excludes_may_be_newer(
    judge_older: Judge,
) -> None:
    members = {
        "demo/__init__.py": "import sys\nif sys.version_info > (3, 8):\n    import demo.a\n",
        "demo/a.py": "x = (a := 1)\n",
    }
    assert judge_older(members, metadata=requiring(">=3.7")) == []
    assert judge_older({"demo/__init__.py": "x = (a := 1)\n"}) == []  # py3 promises no oldest one


def test_imports_that_are_not_followed_to_the_end_are_no_pass(compiled: Compile) -> None:
    members = {
        "demo/__init__.py": "from . import long\n",
        "demo/long.py": "import demo.a\n" + DEEP,
        "demo/a.py": "if (a := 1): pass\n",
        "demo/b.py": BROKEN,
    }
    place, report = compiled(members, metadata=requiring(">=3.7"))
    newer = only(NotInspected, syntax_newer_than_promised(report))
    assert "it is not known whether importing the package always imports it: " in newer.sentence
    found = list(invalid_syntax(report, place.wheel))
    assert isinstance(found[0], Problem)
    assert (shorten(found[1].path), found[1].sentence) == ("demo/b.py", newer.sentence)


def test_an_import_that_fails_for_a_syntax_error_has_its_cause(compiled: Compile) -> None:
    members = {"demo/__init__.py": "import demo.inner\n", "demo/inner.py": "x = 1\n" + BROKEN}
    place, report = compiled(members)
    (source,) = invalid_syntax(report, place.wheel)
    (step,) = import_each(place, ["demo"]).steps
    assert step.detail.endswith(" (demo/inner.py:2)")
    (failed,) = import_fails(
        import_each(place, ["demo"]), place.wheel, place.wheel, JudgedProjects()
    )
    assert isinstance(source, Problem)
    assert isinstance(failed, Problem)
    assert source.cause == failed.cause == "syntax demo/inner.py"
    assert (source.consequence, failed.consequence) == (False, True)
