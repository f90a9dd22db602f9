"""What installation, import and load show is judged, and healthy packages stay quiet."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks.runtime import (
    extension_fails_to_load,
    gil_enabled_again,
    import_changes_directory,
    import_exits_badly,
    import_fails,
    installation_fails,
    installed_files_differ,
    loader_complains,
    shadowed_import,
    unrecorded_files,
    version_disagrees,
)
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ExtensionReport,
    ImportReport,
    InstallReport,
    NotLooked,
    Outcome,
    Problem,
    Step,
)
from fixtures.values import member, wheel

PYTHON = "CPython 3.11.7"


def installed(**fields: Any) -> InstallReport:
    return InstallReport(python=PYTHON, installer="uv 0.13.8", **fields)


def imported(name: str = "demo", **fields: Any) -> ImportReport:
    return ImportReport(python=PYTHON, steps=(Step(name=name, **fields),))


def loaded(*steps: Step, **fields: Any) -> ExtensionReport:
    return ExtensionReport(python=PYTHON, steps=steps, **fields)


def requiring(*requirements: str) -> Any:
    return wheel(metadata=tuple(("Requires-Dist", each) for each in requirements))


def test_installation_fails_fires_with_the_installers_words() -> None:
    report = installed(error="no version of absent")
    assert list(installation_fails(report)) == ["uv 0.13.8 refuses it: no version of absent"]


def test_installation_fails_is_quiet_on_an_installed_package() -> None:
    assert list(installation_fails(installed())) == []


def test_unrecorded_files_fires_for_each_file() -> None:
    sentence = "installed, but RECORD does not name it"
    expected = [Problem(path="demo/extra", sentence=sentence)]
    assert list(unrecorded_files(installed(unrecorded=("demo/extra",)))) == expected


def test_unrecorded_files_is_quiet_when_record_names_all() -> None:
    assert list(unrecorded_files(installed())) == []


def test_installed_files_differ_fires_for_altered_and_missing_files() -> None:
    report = installed(altered=("a.py",), missing=("b.py",))
    assert list(installed_files_differ(report)) == [
        Problem(path="a.py", sentence="installed with other contents than in the wheel"),
        Problem(path="b.py", sentence="in the wheel, but not installed"),
    ]


def test_installed_files_differ_is_quiet_on_a_faithful_copy() -> None:
    assert list(installed_files_differ(installed())) == []


@pytest.mark.parametrize(
    ("outcome", "detail", "sentence"),
    [
        (Outcome.RAISED, "KeyError: 1 (demo.py:2)", "raises KeyError: 1 (demo.py:2)"),
        (Outcome.LOADER_ERROR, "no libx.so", "is refused by the loader: no libx.so"),
        (Outcome.CRASHED, "SIGSEGV", "crashes: SIGSEGV"),
        (Outcome.HUNG, "300 s", "does not end: 300 s"),
        (Outcome.EXITED, "exit status 3", "ends the process: exit status 3"),
    ],
)
def test_import_fails_fires_however_it_fails(outcome: Outcome, detail: str, sentence: str) -> None:
    report = imported(outcome=outcome, detail=detail)
    assert list(import_fails(report, wheel())) == [f"import demo {sentence}"]


def test_import_fails_fires_for_a_requirement_that_nobody_declared() -> None:
    report = imported(outcome=Outcome.RAISED, detail="x", missing_module="absent")
    assert list(import_fails(report, requiring("other"))) == ["import demo raises x"]


def test_import_fails_does_not_look_at_what_needs_an_extra() -> None:
    report = imported("blackd", outcome=Outcome.RAISED, missing_module="aiohttp.web")
    needs = requiring("aiohttp>=3 ; extra == 'd'", "click", "@@ nonsense")
    sentence = "import blackd needs aiohttp.web, which only an extra requires"
    assert list(import_fails(report, needs)) == [NotLooked(sentence=sentence)]


def test_import_fails_is_quiet_on_success_and_on_a_bad_end_afterwards() -> None:
    assert list(import_fails(imported(), wheel())) == []
    assert list(import_fails(imported(outcome=Outcome.CRASHED, finished=True), wheel())) == []


def test_import_exits_badly_fires_after_a_good_import() -> None:
    report = imported(outcome=Outcome.CRASHED, detail="SIGABRT", finished=True)
    expected = ["import demo succeeds, and the process then crashes: SIGABRT"]
    assert list(import_exits_badly(report)) == expected


def test_import_exits_badly_is_quiet_when_the_import_itself_fails() -> None:
    assert list(import_exits_badly(imported(outcome=Outcome.CRASHED))) == []
    assert list(import_exits_badly(imported())) == []


def test_import_changes_directory_fires() -> None:
    report = imported(directory_changed="/")
    assert list(import_changes_directory(report)) == ["import demo leaves the process in /"]


def test_import_changes_directory_is_quiet_when_it_stays() -> None:
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
    (found,) = loader_complains(imported(stderr=f"a note\n{line}\n{line}"))
    assert found == f"import demo makes the system write: {line.replace('[4711]', '')}"


@pytest.mark.parametrize(
    "text",
    [
        "demo/core.py:3: UserWarning: Failed to initialize NumPy: No module named 'numpy'",
        "Could not load library 'libnvinfer.so.7': cannot open shared object file",
        "INFO: loading\nwarning: nothing is fatal",
    ],
)
def test_loader_complains_is_quiet_on_a_packages_own_words(text: str) -> None:
    assert list(loader_complains(imported(stderr=text))) == []


def test_loader_complains_is_quiet_when_the_import_fails_anyway() -> None:
    report = imported(outcome=Outcome.CRASHED, stderr="Fatal Python error: Aborted")
    assert list(loader_complains(report)) == []


def test_shadowed_import_fires_on_another_file_and_on_other_contents() -> None:
    package = wheel(members=[member("demo/__init__.py", b"1")])
    stranger = imported(origin="/usr/lib/demo.py", origin_sha256="00")
    altered = imported(origin="demo/__init__.py", origin_sha256="00")
    removed = imported(origin="demo/__init__.py")
    assert [*shadowed_import(stranger, package)] == [
        "import demo finds /usr/lib/demo.py, which is not of this package"
    ]
    assert [*shadowed_import(altered, package)] == [
        "import demo finds demo/__init__.py with other contents than in the wheel"
    ]
    assert [*shadowed_import(removed, package)] == ["import demo removes demo/__init__.py"]


def test_shadowed_import_is_quiet_on_the_file_of_the_wheel() -> None:
    item = member("demo/__init__.py", b"1")
    report = imported(origin=item.path, origin_sha256=item.sha256)
    assert list(shadowed_import(report, wheel(members=[item]))) == []
    assert list(shadowed_import(imported(), wheel())) == []


@pytest.mark.parametrize("version", ["1.1", "1.0+cpu", "unknown"])
def test_version_disagrees_fires_on_another_version(version: str) -> None:
    expected = f"demo.__version__ is {version!r}, METADATA says '1.0'"
    assert list(version_disagrees(imported(version=version), wheel())) == [expected]


def test_version_disagrees_is_quiet_on_other_spellings_and_other_modules() -> None:
    local = wheel("demo-1.0+cpu-cp311-cp311-manylinux_2_17_x86_64.whl")
    for version in ("", "1.0", "1.0.0", "v1.0"):
        assert list(version_disagrees(imported(version=version), wheel())) == []
        assert list(version_disagrees(imported(version=version), local)) == []
    assert list(version_disagrees(imported("other", version="7"), wheel())) == []


def test_gil_enabled_again_fires_and_names_the_module() -> None:
    warning = (
        "<frozen importlib>:1: RuntimeWarning: The global interpreter lock (GIL) has been "
        "enabled to load module 'demo._core', which has not declared that it can run safely"
    )
    report = imported(gil_enabled=True, stderr=warning)
    assert list(gil_enabled_again(report)) == ["import demo enables the GIL again for demo._core"]
    (said,) = gil_enabled_again(imported(gil_enabled=True))
    assert said == "import demo enables the GIL again"


def test_gil_enabled_again_is_quiet_while_it_is_away() -> None:
    assert list(gil_enabled_again(imported(gil_enabled=False))) == []


def test_gil_enabled_again_is_not_for_interpreters_that_always_have_one() -> None:
    with pytest.raises(NotApplicable):
        list(gil_enabled_again(imported(gil_enabled=None)))


def test_extension_fails_to_load_fires_on_every_refusal() -> None:
    report = loaded(
        Step(name="demo/a.so", outcome=Outcome.LOADER_ERROR, detail="exports no PyInit_a"),
        Step(name="demo/b.so", outcome=Outcome.CRASHED, detail="SIGSEGV"),
        Step(name="", outcome=Outcome.CRASHED, detail="SIGABRT", finished=True),
        untried=("demo/c.so",),
    )
    assert list(extension_fails_to_load(report, imported())) == [
        Problem(path="demo/a.so", sentence="is refused by the loader: exports no PyInit_a"),
        Problem(path="demo/b.so", sentence="crashes: SIGSEGV"),
        "a process that loaded all extension modules crashes: SIGABRT",
        NotLooked(path="demo/c.so", sentence="not loaded, because too many others crashed or hung"),
    ]


@pytest.mark.parametrize("named", ["demo.core._a", "demo/core/_a.abi3.so"])
def test_extension_fails_to_load_fires_on_an_exception_that_matters(named: str) -> None:
    path = "demo/core/_a.abi3.so"
    report = loaded(Step(name=path, outcome=Outcome.RAISED, detail="ImportError: no"))
    expected = [Problem(path=path, sentence="raises ImportError: no")]
    assert list(extension_fails_to_load(report, imported(extensions=(path,)))) == expected
    assert list(extension_fails_to_load(report, imported(), must_import=(named,))) == expected


def test_extension_fails_to_load_is_quiet_on_an_optional_module_that_raises() -> None:
    # scipy 1.18's _matfuncs_sqrtm_triu imports itself half-way and never loads by name.
    report = loaded(Step(name="demo/a.so", outcome=Outcome.RAISED), Step(name="demo/b.so"))
    assert list(extension_fails_to_load(report, imported(extensions=("demo/b.so",)))) == []
