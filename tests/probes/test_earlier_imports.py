"""A plugin that relies on an earlier import of another module is imported after that module."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from binary_checks.checks.runtime import import_fails
from binary_checks.knowledge.failed_imports import find_asked_module
from binary_checks.model import Ending, ImportRequest, JudgedProjects, Note, Problem, Step
from binary_checks.probes.import_name.reader import import_names
from binary_checks.probes.load_extensions.reader import load_extensions
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, UnpackedPlace, read_wheel

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
