"""What a user would import is imported, after what it asks for, within the time of the package."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterator
from dataclasses import replace
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
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.failed_imports import find_asked_module
from binary_checks.model import (
    Ending,
    ImportReport,
    ImportRequest,
    JudgedProjects,
    Note,
    NotInspected,
    Place,
    ProbeAnswer,
    Problem,
    Step,
    TargetPython,
)
from binary_checks.probes.import_name.reader import import_each, import_names
from binary_checks.probes.importable import find_extensions, find_import_names
from binary_checks.probes.load_extensions.reader import load_extensions
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, UnpackedPlace, read_wheel
from fixtures.values import elf_file, member, symbols, wheel

SUFFIXES = (".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so")


def names(*paths: str, extensions: tuple[str, ...] = ()) -> tuple[str, ...]:
    objects = [
        elf_file(path, exports=symbols(f"PyInit_{path.rpartition('/')[2].partition('.')[0]}"))
        for path in extensions
    ]
    members = [member(path) for path in (*paths, *extensions)]
    return find_import_names(wheel(members=members, objects=objects), SUFFIXES)


FAR = "/".join(["a"] * 1500)
FOUND: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "packages and modules at the top level": (
        ("demo/__init__.py", "demo/core.py", "single.py"),
        (),
        ("demo", "single"),
    ),
    "extension modules at the top level": (
        (),
        ("_a.cpython-311-x86_64-linux-gnu.so", "_b.abi3.so", "_c.so"),
        ("_a", "_b", "_c"),
    ),
    "a package that is compiled itself": (
        ("demo/core.py",),
        ("demo/__init__.cpython-311-x86_64-linux-gnu.so",),
        ("demo",),
    ),
    "none of other interpreters": (
        ("demo.py",),
        ("_a.cpython-310-x86_64-linux-gnu.so",),
        ("demo",),
    ),
    "the packages in a namespace": (
        ("google/cloud/storage/__init__.py", "google/rpc/__init__.py", "google/setup.py"),
        (),
        ("google.cloud.storage", "google.rpc"),
    ),
    "packages far down a namespace": ((f"{FAR}/__init__.py",), (), (FAR.replace("/", "."),)),
    "no name of 64000 characters": (("demo/__init__.py", "a/" * 30_000 + "x.py"), (), ("demo",)),
    "no tests beside a package": (("demo.py", "tests/__init__.py"), (), ("demo",)),
    "tests alone": (("tests/__init__.py",), (), ("tests",)),
}


@pytest.mark.parametrize(("paths", "extensions", "found"), FOUND.values(), ids=FOUND)
def test_what_a_user_would_import_is_found(
    paths: tuple[str, ...], extensions: tuple[str, ...], found: tuple[str, ...]
) -> None:
    assert names(*paths, extensions=extensions) == found


@pytest.mark.parametrize(
    "path",
    [
        "demo.libs/libdep.so.1",
        "demo-stubs/__init__.pyi",
        "libdep.so",
        "nvidia/lib/libcudart.so",
        "2to3.py",
        "class.py",
        "__pycache__/demo.cpython-311.pyc",
        "../../../bin/demo.py",
        "share/doc/conf.py",
    ],
)
def test_what_no_import_finds_is_no_name(path: str) -> None:
    with pytest.raises(NotApplicable, match="no Python module"):
        names(path)


def test_a_suffix_alone_makes_no_extension_module() -> None:
    files = [
        elf_file("demo/_cffi.abi3.so", exports=symbols("hash")),
        elf_file("demo/_lost.abi3.so", imports=symbols("PyModule_Create2")),
        elf_file("demo/_other.abi3.so", exports=symbols("PyInit_another")),
    ]
    found = find_extensions(wheel(objects=files), SUFFIXES)
    assert found == ("demo/_lost.abi3.so", "demo/_other.abi3.so")
    with pytest.raises(NotApplicable, match="no extension module"):
        find_extensions(wheel(objects=[elf_file("demo/libdep.so")]), SUFFIXES)


# A plugin that relies on an earlier import of another module is imported after that module.

SUFFIX = importlib.machinery.EXTENSION_SUFFIXES[0]
on_linux = pytest.mark.skipif(
    not sys.platform.startswith("linux") or "x86_64-linux" not in SUFFIX,
    reason="the extension modules are ELF for x86_64",
)


@pytest.mark.parametrize(
    ("message", "module"),
    [
        ("ImportError: import torch first", "torch"),
        ("RuntimeError: Please import `torch` before importing demo (demo/__init__.py:3)", "torch"),
        ("ImportError: jax.lib must be imported before demo", "jax.lib"),
        ("ImportError: 'torch' has to be loaded first", "torch"),
        ("ImportError: demo requires six to be imported first", "six"),
        ("RuntimeError: torch has not been imported yet", "torch"),
        ("ImportError: 'torch' is not loaded: load it before demo", "torch"),
        ("ImportError: import demo.core before demo.plugin", ""),  # its own module
        ("ImportError: cannot import name 'first' from 'torch'", ""),
        ("ModuleNotFoundError: No module named 'torch'", ""),
    ],
)
def test_an_exception_may_ask_for_an_earlier_import(message: str, module: str) -> None:
    step = Step(name="demo", outcome=Ending.RAISED, detail=message)
    assert find_asked_module(step) == module
    for outcome in (Ending.OK, Ending.CRASHED):
        assert not find_asked_module(replace(step, outcome=outcome))


ASKING = """
import sys
if "core" not in sys.modules:
    raise ImportError("import core first")
"""
NEEDS_ABSENT = """
raise ImportError("import absent first")
"""
WITHOUT_WORDS = """
import sys
assert "core" in sys.modules
"""
PRELOADING = """
import ctypes, pathlib
ctypes.CDLL(str(pathlib.Path(__file__).with_name("libcore.so")))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnpackedPlace]:
    """An environment with a package core, and plugins of it that do not contain core."""
    folder = tmp_path_factory.mktemp("plugins")
    plugins = {
        "plugin/__init__.py": ASKING,
        "lost/__init__.py": NEEDS_ABSENT,
        "silent/__init__.py": WITHOUT_WORDS,
        f"bare{SUFFIX}": build_elf(needed=["libcore.so"], exports=[ElfSymbol("PyInit_bare")]),
    }
    core = {
        "core/__init__.py": PRELOADING,
        "core/libcore.so": build_elf(soname="libcore.so", exports=[ElfSymbol("core")]),
    }
    path = build_wheel(folder / "plugins", tags=PURE, members=plugins)
    with UnpackedPlace(read_wheel(path), folder / "environment") as place:
        for name, content in core.items():
            file = place.target.site_packages / name
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        yield place


@on_linux
def test_what_a_plugin_asks_for_is_imported_first(environment: UnpackedPlace) -> None:
    package = environment.wheel
    report = import_names(environment, package, ImportRequest())
    steps = {step.name: step for step in report.steps}
    assert (steps["plugin"].outcome, steps["plugin"].after) == (Ending.OK, "core")
    assert (steps["lost"].outcome, steps["lost"].after) == (Ending.RAISED, "")
    found = {}
    for each in import_fails(report, package, package, JudgedProjects()):
        found[str(each.sentence).split()[1]] = each  # type: ignore[union-attr]
    assert found["plugin"] == Note(sentence="import plugin works only after import core")
    assert isinstance(found["lost"], Problem)
    assert "no Requires-Dist provides the module absent" not in found["lost"].sentence
    report = replace(report, requirements_installed=True)
    (lost,) = (
        each
        for each in import_fails(report, package, package, JudgedProjects())
        if isinstance(each, Problem) and each.sentence.startswith("import lost ")
    )
    assert lost.sentence.endswith(": no Requires-Dist provides the module absent")
    assert isinstance(found["silent"], Problem)


@on_linux
def test_a_profile_names_what_is_imported_first(environment: UnpackedPlace) -> None:
    request = ImportRequest(first=("core",))  # type: ignore[arg-type]
    report = import_names(environment, environment.wheel, request)
    ends = {step.name: step.outcome for step in report.steps}
    assert (ends["plugin"], ends["silent"]) == (Ending.OK, Ending.OK)


@on_linux
def test_a_bare_module_is_loaded_after_the_package_that_has_its_library(
    environment: UnpackedPlace,
) -> None:
    """Its init function here is no real one: the step shows that the loader accepted the file."""
    (step,) = load_extensions(environment, environment.wheel, ImportRequest()).steps
    assert (step.outcome, "libcore.so: cannot open" in step.detail) == (Ending.LOADER_ERROR, True)
    request = ImportRequest(first=("core",))  # type: ignore[arg-type]
    (step,) = load_extensions(environment, environment.wheel, request).steps
    assert "cannot open" not in step.detail


# A package decides how many modules it has, but not for how long all of them are imported.

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
