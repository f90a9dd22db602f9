"""Mistakes of developers who build with CMake and scikit-build-core, and what they read first."""

from __future__ import annotations

import sysconfig

from tests.mistakes.building import (
    CALLING,
    CORE,
    INIT,
    NATIVE,
    VEC,
    Mistake,
    not_in_wheel,
)

MODULE = "python_add_library(_core MODULE WITH_SOABI core.c)"
LIBRARY = "add_library(vec SHARED vec.c)\ntarget_link_libraries(_core PRIVATE vec)"
BESIDE = "install(TARGETS _core vec DESTINATION demo)"


def project(
    *, module: str = MODULE, library: str = "", install: str, core: str = CORE, settings: str = ""
) -> dict[str, str | bytes]:
    """Return the files of a project."""
    lists = f"""\
cmake_minimum_required(VERSION 3.15...4.0)
project(demo C)
find_package(Python REQUIRED COMPONENTS Interpreter Development.Module)
{module}
{library}
{install}
"""
    pyproject = f"""\
[build-system]
requires = ["scikit-build-core"]
build-backend = "scikit_build_core.build"

[project]
name = "demo"
version = "1.0"

[tool.scikit-build]
{settings}
"""
    return {
        "pyproject.toml": pyproject,
        "CMakeLists.txt": lists,
        "core.c": core,
        "vec.c": VEC,
        "src/demo/__init__.py": INIT,
    }


def with_library(install: str, library: str = "") -> dict[str, str | bytes]:
    """Return the files of a project whose module needs a library of the project."""
    return project(library=f"{LIBRARY}\n{library}", install=install, core=CALLING)


ORIGIN = "set_target_properties(_core PROPERTIES INSTALL_RPATH $ORIGIN)"
BUILD_PATH = "set_target_properties(_core PROPERTIES INSTALL_RPATH ${CMAKE_BINARY_DIR})"
MISTAKES = {
    "a library beside the module, without a search path": Mistake(
        files=with_library(BESIDE),
        shown=f"load-order-dependent: {NATIVE}: needs libvec.so and does not find it (it has no "
        "search path): demo/libvec.so is in the package",
        todo="patchelf --add-rpath '$ORIGIN'",
    ),
    "a library in the default folder": Mistake(
        files=with_library("install(TARGETS _core DESTINATION demo)\ninstall(TARGETS vec)"),
        shown=f"load-order-dependent: {NATIVE}: needs libvec.so and does not find it (it has no "
        "search path): lib/libvec.so is in the package",
        todo="patchelf --add-rpath '$ORIGIN/../lib'",
    ),
    "a library that is not installed": Mistake(
        files=with_library("install(TARGETS _core DESTINATION demo)"),
        shown=f"missing-library: {NATIVE}: needs libvec.so, which neither the package nor",
        todo="where the library is installed",
    ),
    "the search path leads to the build folder": Mistake(
        files=with_library("install(TARGETS _core DESTINATION demo)", BUILD_PATH),
        shown=f"missing-library: {NATIVE}: needs libvec.so, which neither the package nor",
        todo="auditwheel repair",
    ),
    "the module is not installed": not_in_wheel(
        "demo._core",
        files=project(install=""),
    ),
    "the module is a plain library": not_in_wheel(
        "demo._core",
        instead="demo/lib_core.so",
        files=project(
            module="add_library(_core SHARED core.c)\n"
            "target_link_libraries(_core PRIVATE Python::Module)",
            install="install(TARGETS _core DESTINATION demo)",
        ),
    ),
    "linked with Python::Python": Mistake(
        files=project(
            module="find_package(Python REQUIRED COMPONENTS Interpreter Development)\n"
            "add_library(_core MODULE core.c)\n"
            'set_target_properties(_core PROPERTIES PREFIX "" SUFFIX .${Python_SOABI}.so)\n'
            "target_link_libraries(_core Python::Python)",
            install="install(TARGETS _core DESTINATION demo)",
        ),
        needs=f"test {sysconfig.get_config_var('Py_ENABLE_SHARED')} = 1",
        shown=f"libpython-linked: {NATIVE}: needs libpython3.",
        todo="CMake's 'Development.Module'",
    ),
    "the tag states the limited API, and the module does not": Mistake(
        files=project(
            install="install(TARGETS _core DESTINATION demo)", settings='wheel.py-api = "cp38"'
        ),
        shown=f"version-bound-extension: {NATIVE}: is imported by Python 3.",
        todo="CMake: 'USE_SABI'",
    ),
    "a module in a wheel for any platform": Mistake(
        files=project(
            install="install(TARGETS _core DESTINATION demo)", settings="wheel.platlib = false"
        ),
        shown=f"native-code-in-any-wheel: {NATIVE}: an extension module, ELF for x86_64 in a wheel",
        todo="build it with a platform tag",
    ),
}
