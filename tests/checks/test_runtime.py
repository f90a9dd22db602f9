"""What an import shows is judged, and healthy packages stay quiet."""

from __future__ import annotations

from typing import Any

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
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Ending,
    ImportReport,
    JudgedProjects,
    Linkage,
    Note,
    NotInspected,
    Problem,
    Step,
)
from fixtures.values import elf_file, member, only, say, symbols, wheel

PYTHON = "CPython 3.11.7"
NO_OBJECTS = Linkage(target="manylinux_2_17_x86_64")
UNFINISHED = NotInspected(sentence="import demo did not succeed")


GIL_WARNING = (
    "<frozen importlib>:1: RuntimeWarning: The global interpreter lock (GIL) has been "
    "enabled to load module 'demo._core', which has not declared that it can run safely"
)
ALONE = JudgedProjects()


def imported(name: str = "demo", **fields: Any) -> ImportReport:
    return ImportReport(python=PYTHON, steps=(Step(name=name, **fields),))


def requiring(*requirements: str) -> Any:
    return wheel(metadata=tuple(("Requires-Dist", each) for each in requirements))


@pytest.mark.parametrize(
    ("outcome", "detail", "sentence"),
    [
        (Ending.RAISED, "KeyError: 1 (demo.py:2)", "raises KeyError: 1 (demo.py:2)"),
        (Ending.LOADER_ERROR, "no libx.so", "is refused by the loader: no libx.so"),
        (Ending.CRASHED, "SIGSEGV", "crashes: SIGSEGV"),
        (Ending.HUNG, "300 s", "hangs: 300 s"),
        (Ending.EXITED, "exit status 3", "ends the process: exit status 3"),
    ],
)
def test_import_fails_fires_however_it_fails(outcome: Ending, detail: str, sentence: str) -> None:
    report = imported(outcome=outcome, detail=detail)
    # an entry point raises the same exception, and a module crashes in the same way
    causes = {Ending.RAISED: detail, Ending.LOADER_ERROR: ""}
    assert list(import_fails(report, wheel(), NO_OBJECTS, ALONE)) == [
        Problem(sentence=f"import demo {sentence}", cause=causes.get(outcome, sentence))
    ]


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        ("", ""),
        ("loading\nno license at 0x7ffe12ab\n", ": no license at 0x..."),
        ("2026-11-24 14:00:01,123 ERROR no license\n", ": ERROR no license"),
        (
            "==16524==ASan runtime does not come first in initial library list; preload it.\nbye\n",
            ": ASan runtime does not come first in initial library list; preload it.",
        ),
    ],
)
def test_a_process_that_ends_is_quoted_without_numbers_that_vary(stderr: str, said: str) -> None:
    report = imported(outcome=Ending.EXITED, detail="exit status 1", stderr=stderr)
    problem = only(Problem, import_fails(report, wheel(), NO_OBJECTS, ALONE))
    assert problem.sentence == f"import demo ends the process: exit status 1{said}"


def test_import_fails_names_the_library_that_the_loader_did_not_find() -> None:
    detail = "libx.so.1: cannot open shared object file: No such file or directory"
    report = imported(outcome=Ending.LOADER_ERROR, detail=detail)
    problem = only(Problem, import_fails(report, wheel(), NO_OBJECTS, ALONE))
    assert (problem.cause, problem.consequence) == ("library libx.so.1", True)


def test_import_fails_names_the_requirement_that_nobody_declared() -> None:
    step = Step(name="demo", outcome=Ending.RAISED, detail="x", missing_module="yaml")
    report = ImportReport(python=PYTHON, requirements_installed=True, steps=(step,))
    plain, doubtful = wheel(), requiring("pyyaml; extra == 'all'")
    lack = "no Requires-Dist provides the module yaml"
    assert list(import_fails(report, plain, NO_OBJECTS, ALONE)) == [
        Problem(sentence=f"import demo raises x: {lack}", cause="requirement yaml")
    ]
    problem = only(Problem, import_fails(report, doubtful, NO_OBJECTS, ALONE))
    assert problem.sentence.endswith(f"{lack} (an extra may)")
    assert problem.fix.startswith("require the project that has the module")
    there_before = ImportReport(python=PYTHON, steps=(step,))
    assert list(import_fails(there_before, requiring("other"), NO_OBJECTS, ALONE)) == [
        Problem(sentence="import demo raises x", cause="x")
    ]


@pytest.mark.parametrize(
    ("requires", "lack"),
    [
        (
            ["six; sys_platform == 'plan9'"],
            'Requires-Dist has six only where sys_platform == "plan9"',
        ),
        (["six; python_version < '3'"], 'Requires-Dist has six only where python_version < "3"'),
        (["six; python_version < '3'", "six"], ""),
        # once more without a marker: another project's file hides the module
        (["six; sys_platform == 'plan9'", "six"], ""),
        (
            ["pysix; sys_platform == 'plan9'"],
            "no Requires-Dist provides the module six here (other systems also get pysix)",
        ),
    ],
)
def test_import_fails_names_a_requirement_that_only_other_systems_get(
    requires: list[str], lack: str
) -> None:
    step = Step(name="demo", outcome=Ending.RAISED, detail="x", missing_module="six")
    report = ImportReport(python=PYTHON, requirements_installed=True, steps=(step,))
    problem = only(Problem, import_fails(report, requiring(*requires), NO_OBJECTS, ALONE))
    assert problem.sentence == f"import demo raises x{': ' if lack else ''}{lack}"
    remedies = ("widen the marker of that requirement", "require the project that has the module")
    assert problem.fix.startswith(remedies[" only where " not in lack]) is bool(lack)


@pytest.mark.parametrize(
    ("missing", "lack"),
    [
        ({"missing_module": "demo.inner"}, "demo.inner is not in the wheel"),
        ({"missing_file": "demo/data/a.json"}, "demo/data/a.json is not in the wheel"),
        (
            {"detail": "ValueError: Cannot load imports from non-existent stub 'demo/a.pyi'"},
            "demo/a.pyi is not in the wheel",
        ),
        ({"detail": "ValueError: missing value in 'demo/there.json'"}, ""),
        ({"detail": "ValueError: cannot write 'demo/cache.json'"}, ""),
        ({"missing_module": "demo.core"}, ""),  # it is there: the exception says more
        ({"missing_module": "shared.other"}, ""),  # which another distribution may have
        ({"missing_module": "_tkinter"}, ""),
        ({"missing_file": "other/a.json"}, ""),
        ({"missing_file": "demo/there.json"}, ""),
    ],
)
def test_import_fails_names_what_the_wheel_lacks(missing: dict[str, str], lack: str) -> None:
    paths = ("demo/__init__.py", "demo/core.py", "demo/there.json", "shared/mine/__init__.py")
    missing = {"detail": "x", **missing}
    step = Step(name="demo", outcome=Ending.RAISED, **missing)
    report = ImportReport(python=PYTHON, requirements_installed=True, steps=(step,))
    found = list(import_fails(report, wheel(members=tuple(map(member, paths))), NO_OBJECTS, ALONE))
    sentence = f"import demo raises {step.detail}{': ' if lack else ''}{lack}"
    problem = only(Problem, found)
    assert (problem.sentence, problem.cause) == (sentence, lack or step.detail)
    assert problem.fix == ("include the module or the file in the package" if lack else "")


@pytest.mark.parametrize(
    ("missing", "paths", "lack"),
    [
        (
            {"missing_module": "demo._core"},
            ("_core.abi3.so",),
            "demo._core is not in the wheel, which has _core.abi3.so",
        ),
        ({"missing_module": "demo._core"}, ("demo/lib_core.so",), ", which has demo/lib_core.so"),
        ({"missing_module": "demo.inner"}, ("inner.py",), ", which has inner.py"),
        ({"missing_module": "demo.inner"}, ("inner.py", "tests/inner.py"), ""),
        (
            {"missing_file": "demo/table.json"},
            ("data/table.json",),
            "import demo raises x: demo/table.json is not in the wheel, which has data/table.json",
        ),
    ],
)
def test_import_fails_names_the_file_that_lies_under_another_path(
    missing: dict[str, str], paths: tuple[str, ...], lack: str
) -> None:
    exported = symbols("PyInit__core")
    objects = tuple(elf_file(path, exports=exported) for path in paths if path.endswith(".so"))
    package = wheel(members=tuple(map(member, ("demo/__init__.py", *paths))), objects=objects)
    report = imported(outcome=Ending.RAISED, detail="x", **missing)
    problem = only(Problem, import_fails(report, package, NO_OBJECTS, ALONE))
    end = f"{lack} instead" if lack else "demo.inner is not in the wheel"
    assert problem.sentence.endswith(end)
    where = "put the file where the code looks for it"
    assert problem.fix == (where if lack else "include the module or the file in the package")


def test_import_fails_does_not_look_at_what_needs_an_extra() -> None:
    report = imported("blackd", outcome=Ending.RAISED, missing_module="aiohttp.web")
    needs = requiring("aiohttp>=3 ; extra == 'd'", "click", "@@ nonsense")
    sentence = "import blackd needs aiohttp.web, which only an extra requires"
    assert list(import_fails(report, needs, NO_OBJECTS, ALONE)) == [NotInspected(sentence=sentence)]


def test_import_fails_is_quiet_on_success_and_on_a_bad_end_afterwards() -> None:
    assert list(import_fails(imported(), wheel(), NO_OBJECTS, ALONE)) == []
    finished = imported(outcome=Ending.CRASHED, finished=True)
    assert list(import_fails(finished, wheel(), NO_OBJECTS, ALONE)) == []
    report = ImportReport(python="wine 10.0", reservation="wine is not Windows")
    note = Note(sentence="wine is not Windows")  # what a pass does not prove
    assert list(import_fails(report, wheel(), NO_OBJECTS, ALONE)) == [note]


def test_import_exits_badly_fires_after_a_good_import() -> None:
    report = imported(outcome=Ending.CRASHED, detail="SIGABRT", finished=True)
    expected = ["import demo succeeds, and the process then crashes: SIGABRT"]
    assert say(import_exits_badly(report)) == expected
    assert list(import_exits_badly(imported())) == []


@pytest.mark.parametrize("outcome", [item for item in Ending if item is not Ending.OK])
def test_what_follows_an_import_is_not_inspected_when_it_fails(outcome: Ending) -> None:
    report = imported(outcome=outcome, stderr="Fatal Python error: Aborted")
    assert list(import_exits_badly(report)) == [UNFINISHED]
    assert list(import_changes_directory(report)) == [UNFINISHED]
    assert list(loader_complains(report)) == [UNFINISHED]
    assert list(shadowed_import(report, wheel())) == [UNFINISHED]
    assert list(version_disagrees(report, wheel())) == [UNFINISHED]


def test_what_an_import_did_counts_when_its_process_ends_badly_afterwards() -> None:
    ended: dict[str, Any] = {"outcome": Ending.CRASHED, "finished": True}
    report = imported(**ended, version="7", origin="/usr/lib/demo.py")
    assert say(version_disagrees(report, wheel())) == [
        "demo.__version__ is '7', METADATA says '1.0'"
    ]
    (found,) = shadowed_import(report, wheel())
    assert say([found]) == ["import demo finds /usr/lib/demo.py, which is not part of this package"]
    assert only(NotInspected, loader_complains(report))
    assert list(import_changes_directory(report)) == []


def test_import_changes_directory_fires_whether_the_import_fails_then_or_not() -> None:
    for outcome in (Ending.OK, Ending.RAISED):
        report = imported(outcome=outcome, directory_changed="/")
        assert say(import_changes_directory(report)) == ["import demo leaves the process in /"]
    assert list(import_changes_directory(imported())) == []


@pytest.mark.parametrize(
    "line",
    [
        "python: symbol lookup error: demo.so: undefined symbol: gone",
        "demo.so: /lib/libz.so.1: no version information available (required by demo.so)",
        "dyld[4711]: Library not loaded: @rpath/libx.dylib",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "libx.so: cannot allocate memory in static TLS block",
        "free(): invalid pointer",
    ],
)
def test_loader_complains_fires_on_the_systems_own_errors(line: str) -> None:
    said = line.replace("[4711]", "")
    assert say(loader_complains(imported(stderr=f"a note\n{line}\n{line}"))) == [
        f"import demo makes the system write: {said}",
        Note(sentence="import demo writes to stderr: a note"),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("demo/core.py:3: UserWarning: old\n  import old\n", "demo/core.py:3: UserWarning: old"),
        (
            "Could not load library 'libnvinfer.so.7': cannot open shared object file",
            "Could not load library 'libnvinfer.so.7': cannot open shared object file",
        ),
        ("INFO: loading\nwarning: not fatal\n\n", "warning: not fatal (after 1 more)"),
        ("x" * 201, "x" * 78 + "..." + "x" * 119),
    ],
)
def test_a_packages_own_words_on_stderr_are_a_note(text: str, shown: str) -> None:
    expected = [Note(sentence=f"import demo writes to stderr: {shown}")]
    assert list(loader_complains(imported(stderr=text))) == expected


@pytest.mark.parametrize("text", ["", "\n", GIL_WARNING])
def test_loader_complains_is_quiet_on_silence_and_on_what_another_check_counts(text: str) -> None:
    assert list(loader_complains(imported(stderr=text))) == []


def test_shadowed_import_fires_on_another_file_and_on_other_contents() -> None:
    package = wheel(members=[member("demo/__init__.py", b"1")])
    stranger = imported(origin="/usr/lib/demo.py", origin_sha256="00")
    altered = imported(origin="demo/__init__.py", origin_sha256="00")
    removed = imported(origin="demo/__init__.py")
    assert say(shadowed_import(stranger, package)) == [
        "import demo finds /usr/lib/demo.py, which is not part of this package"
    ]
    assert say(shadowed_import(altered, package)) == [
        "import demo finds demo/__init__.py with different contents than in the wheel"
    ]
    assert say(shadowed_import(removed, package)) == ["import demo removes demo/__init__.py"]
    item = package.members[0]
    own = imported(origin=item.path, origin_sha256=item.sha256)
    assert list(shadowed_import(own, package)) == []
    sentence = "import demo does not say which file it found"
    assert list(shadowed_import(imported(), package)) == [NotInspected(sentence=sentence)]


def test_version_disagrees_fires_on_another_version_and_not_on_another_spelling() -> None:
    local = wheel("demo-1.0+cpu-cp311-cp311-manylinux_2_17_x86_64.whl")
    for version in ("1.1", "1.0+cpu", "unknown"):
        expected = f"demo.__version__ is {version!r}, METADATA says '1.0'"
        assert say(version_disagrees(imported(version=version), wheel())) == [expected]
    for version in ("1.0", "1.0.0", "v1.0"):
        assert list(version_disagrees(imported(version=version), wheel())) == []
        assert list(version_disagrees(imported(version=version), local)) == []


@pytest.mark.parametrize(
    "report",
    [
        imported(),
        imported("other", version="7"),
        imported("other", outcome=Ending.CRASHED),
    ],
    ids=["no version", "another module", "another module that crashes"],
)
def test_version_disagrees_is_not_for_projects_whose_module_says_none(report: ImportReport) -> None:
    with pytest.raises(NotApplicable, match="has a __version__"):
        list(version_disagrees(report, wheel()))


def test_gil_enabled_again_fires_and_names_the_module() -> None:
    report = imported(gil_enabled=True, stderr=GIL_WARNING)
    assert say(gil_enabled_again(report)) == ["import demo re-enables the GIL for demo._core"]
    (said,) = gil_enabled_again(imported(gil_enabled=True))
    assert said.sentence == "import demo re-enables the GIL"


def test_gil_enabled_again_is_for_free_threaded_interpreters_whose_import_succeeds() -> None:
    assert list(gil_enabled_again(imported(gil_enabled=False))) == []
    with pytest.raises(NotApplicable):
        list(gil_enabled_again(imported(gil_enabled=None)))
    step = Step(name="demo", outcome=Ending.CRASHED)
    report = ImportReport(python="CPython 3.13.1 free-threaded", steps=(step,))
    assert list(gil_enabled_again(report)) == [UNFINISHED]


def test_a_fault_of_another_judged_package_is_not_reported_a_second_time() -> None:
    refused = "ImportError: dynamic module does not define module export function (PyInit__core)"
    report = imported(outcome=Ending.LOADER_ERROR, detail=f"{refused} (beads/__init__.py:1)")
    both = JudgedProjects(names=frozenset({"demo", "beads"}))
    assert list(import_fails(report, wheel(), NO_OBJECTS, both)) == [
        NotInspected(sentence="import demo imports beads, which the loader refuses: see beads")
    ]
    assert only(Problem, import_fails(report, wheel(), NO_OBJECTS, ALONE))
    own = imported(outcome=Ending.LOADER_ERROR, detail=f"{refused} (demo/__init__.py:1)")
    package = wheel(members=(member("demo/__init__.py"),))
    assert only(Problem, import_fails(own, package, NO_OBJECTS, both))
