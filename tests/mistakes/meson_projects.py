"""Mistakes of developers who build with Meson and meson-python, and what they read first."""

from __future__ import annotations

from tests.mistakes.building import (
    CALLING,
    CORE,
    INIT,
    NATIVE,
    SUFFIX,
    VEC,
    Mistake,
    not_in_wheel,
)


def project(
    library: str = "",
    *,
    module: str = "subdir: 'demo', install: true",
    sources: str = "'demo/__init__.py', subdir: 'demo'",
    core: str = CORE,
    init: str = INIT,
    more: str = "",
) -> dict[str, str | bytes]:
    """Return the files of a project."""
    build = f"""\
project('demo', 'c', version: '1.0')
py = import('python').find_installation(pure: false)
{library}
py.extension_module('_core', 'core.c', {module})
py.install_sources({sources})
"""
    pyproject = f"""\
[build-system]
requires = ["meson-python"]
build-backend = "mesonpy"

[project]
name = "demo"
version = "1.0"
{more}
"""
    return {
        "pyproject.toml": pyproject,
        "meson.build": build,
        "core.c": core,
        "vec.c": VEC,
        "demo/__init__.py": init,
        "demo/inner.py": "x = 1\n",
    }


def with_library(library: str) -> dict[str, str | bytes]:
    """Return the files of a project whose module needs a library of the project."""
    module = "subdir: 'demo', install: true, link_with: vec"
    return project(f"vec = {library}", module=module, core=CALLING)


INSIDE = "install_dir: py.get_install_dir() / 'demo'"
MISTAKES = {
    "a library beside the module, without install_rpath": Mistake(
        files=with_library(f"shared_library('vec', 'vec.c', install: true, {INSIDE})"),
        shown=f"load-order-dependent: {NATIVE}: needs libvec.so and does not find it (it has no "
        "search path): demo/libvec.so is in the package",
        todo="patchelf --add-rpath '$ORIGIN'",
    ),
    "a library that is not installed": Mistake(
        files=with_library("shared_library('vec', 'vec.c')"),
        shown=f"missing-library: {NATIVE}: needs libvec.so, which neither the package nor",
        todo="where the library is installed",
    ),
    "the module is installed at the top level": not_in_wheel(
        "demo._core",
        instead=f"_core{SUFFIX}",
        files=project(module="install: true"),
    ),
    "the module is not installed": not_in_wheel(
        "demo._core",
        files=project(module="subdir: 'demo'"),
    ),
    "a source is missing from install_sources": not_in_wheel(
        "demo.inner",
        line=2,
        files=project(init=f"{INIT}from demo.inner import x\n"),
    ),
    "sources are installed at the top level": Mistake(
        files=project(sources="'demo/__init__.py'"),
        shown="warning: stray-top-level-folder: __init__.py: no import executes it at the top ",
        todo="keep them inside the package",
    ),
    "an entry point names a module that is not installed": Mistake(
        files=project(more="[project.scripts]\ndemo = 'demo.inner:main'\n"),
        shown="missing-entry-point: demo-1.0.dist-info/entry_points.txt: the command demo = "
        "demo.inner:main raises ModuleNotFoundError: No module named 'demo.inner'",
        todo="correct the entry point, or include the module",
    ),
}
