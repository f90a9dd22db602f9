"""Mistakes of developers who build with setuptools, and what they read first about the wheel."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping

from fixtures.build_elf import ElfSymbol, build_elf
from tests.mistakes.building import (
    CALLING,
    CORE,
    INIT,
    NATIVE,
    VEC,
    Mistake,
    not_in_wheel,
)

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
COMPILE = f"gcc -shared -fPIC -I{sysconfig.get_path('include')}"
BUILT = f"build/lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}/demo"
"""The folder in which setuptools leaves the modules of the last build."""


def project(
    change: str = "",
    *,
    core: str = CORE,
    init: str = INIT,
    files: Mapping[str, str | bytes] = {},
) -> dict[str, str | bytes]:
    """Return the files of a project whose setup.py has one more statement."""
    setup = f"""\
import os
from setuptools import Extension, find_packages, setup

core = Extension("demo._core", ["core.c"])
arguments = {{"name": "demo", "version": "1.0", "packages": ["demo"], "ext_modules": [core]}}
{change}
setup(**arguments)
"""
    return {"setup.py": setup, "core.c": core, "demo/__init__.py": init, **files}


LIMITED = 'arguments["options"] = {"bdist_wheel": {"py_limited_api": "cp38"}}'
LINKING = 'core.libraries, core.library_dirs = ["vec"], ["vendor"]'
VENDOR = "gcc -shared -fPIC -Wl,-soname,libvec.so vendor/vec.c -o vendor/libvec.so"
FOR_ARM = build_elf(
    machine="aarch64", alignment=0x10000, exports=[ElfSymbol("PyInit__fast")], needed=["libc.so.6"]
)
MISTAKES = {
    "the init function has another name than the file": Mistake(
        files=project(core=CORE.replace("PyInit__core", "PyInit_core")),
        shown=f"missing-init-function: {NATIVE}: exports PyInit_core instead of PyInit__core",
        todo="export 'PyInit_<name>'",
    ),
    "a source is missing from the extension": Mistake(
        files=project(core=CALLING, files={"vec.c": VEC}),
        shown=f"undefined-symbol: {NATIVE}: has 1 undefined symbol (measure)",
        todo="link it with the library that does",
    ),
    "a library is not bundled": Mistake(
        files=project(LINKING, core=CALLING, files={"vendor/vec.c": VEC}),
        before=VENDOR,
        shown=f"missing-library: {NATIVE}: needs libvec.so, which neither the package nor",
        todo="where the library is installed",
    ),
    "the search path leads to the build folder": Mistake(
        files=project(
            f'{LINKING}; core.runtime_library_dirs = [os.path.abspath("vendor")]',
            core=CALLING,
            files={"vendor/vec.c": VEC},
        ),
        before=VENDOR,
        shown=f"missing-library: {NATIVE}: needs libvec.so, which neither the package nor",
        todo="auditwheel repair",
    ),
    "the library was compiled for the old std::string": Mistake(
        files=project(
            'core.sources, core.extra_objects = ["core.cpp"], ["vendor/libvec.a"]',
            files={
                "core.cpp": "#include <string>\nstd::string twice(std::string);\n"
                + CORE.replace("42", 'twice("a").size()'),
                "vendor/vec.cpp": "#include <string>\n"
                "std::string twice(std::string text) { return text + text; }\n",
            },
        ),
        before="cd vendor; g++ -D_GLIBCXX_USE_CXX11_ABI=0 -fPIC -c vec.cpp; ar rcs libvec.a vec.o",
        shown=f"undefined-symbol: {NATIVE}: has 1 undefined symbol (_Z5twiceNSt7__cxx1112basic_",
        todo="compiled for the new std::string (_GLIBCXX_USE_CXX11_ABI=1)",
    ),
    "compiled with -march=native": Mistake(
        files=project('core.extra_compile_args = ["-march=native", "-g"]'),
        needs="grep -qw avx /proc/cpuinfo",
        shown=f"compiled-for-build-machine: {NATIVE}: was compiled with -march=native on a ",
        todo="compile without '-march=native'",
    ),
    "built with AddressSanitizer": Mistake(
        files=project(
            "core.extra_compile_args = core.extra_link_args = ['-fsanitize=address']",
        ),
        needs="test -e $(gcc -print-file-name=libasan.so)",
        shown=f"built-with-sanitizer: {NATIVE}: needs libasan.so.",
        todo="build it again without -fsanitize=address",
    ),
    "built with debug information": Mistake(
        files=project('core.extra_compile_args = ["-g", "-O0"]'),
        profile='enable = ["debug-information"]\n',
        shown=f"warning: debug-information: {NATIVE}: has debug information (.debug_info)",
        todo="-Wl,--strip-debug",
    ),
    "linked with an executable stack": Mistake(
        files=project('core.extra_link_args = ["-Wl,-z,execstack"]'),
        shown=f"executable-stack: {NATIVE}: asks for an executable stack",
        todo="patchelf --clear-execstack",
    ),
    "compiled without -fPIC": Mistake(
        files=project(
            'core.extra_compile_args = ["-fno-pic", "-mcmodel=large"]; '
            'core.extra_link_args = ["-Wl,-z,notext"]'
        ),
        shown=f"warning: text-relocations: {NATIVE}: has ",
        todo="compile everything linked into it with `-fPIC`",
    ),
    "the limited API is stated, and other functions are used": Mistake(
        files=project(
            f"core.py_limited_api = True; {LIMITED}",
            core=CORE.replace("42", "_Py_HashPointer(self)"),
        ),
        shown="unstable-symbol: demo/_core.abi3.so: uses _Py_HashPointer, not in the stable ABI",
        todo="define Py_LIMITED_API in every source",
    ),
    "the tag states the limited API, and the extension does not": Mistake(
        files=project(LIMITED),
        shown=f"version-bound-extension: {NATIVE}: is imported by Python {PYTHON} alone",
        todo="'py_limited_api=True' of the Extension",
    ),
    "the newest syntax for the oldest Python": Mistake(
        files=project(
            'core.py_limited_api = True; core.define_macros = [("Py_LIMITED_API", "0x03080000")]; '
            f'arguments["python_requires"] = ">=3.8"; {LIMITED}',
            init=f"{INIT}match answer():\n    case 42:\n        pass\n",
        ),
        shown="syntax-newer-than-promised: demo/__init__.py: line ",
        todo="raise Requires-Python",
    ),
    "Requires-Python excludes the Python of the build": Mistake(
        files=project('arguments["python_requires"] = ">=3.99"'),
        shown="python-is-excluded: ",
        todo="Requires-Python",
    ),
    "native code as package data": Mistake(
        files=project('arguments |= {"ext_modules": [], "package_data": {"demo": ["*.so"]}}'),
        before=f"{COMPILE} core.c -o demo/_core.so",
        shown="native-code-in-any-wheel: demo/_core.so: an extension module, ELF for x86_64 in a",
        todo="build it with a platform tag",
    ),
    "a module that another Python left in build/": Mistake(
        files=project(files={"old.c": CORE.replace("PyInit__core", "PyInit__old")}),
        before=f"mkdir -p {BUILT}; {COMPILE} old.c -o {BUILT}/_old.cpython-39-x86_64-linux-gnu.so",
        shown="foreign-extension-suffix: demo/_old.cpython-39-x86_64-linux-gnu.so: no interpreter",
        todo="clean the build folder between interpreters",
    ),
    "a module for another architecture": Mistake(
        files=project(
            'arguments["package_data"] = {"demo": ["*.so"]}', files={"demo/_fast.so": FOR_ARM}
        ),
        shown="wrong-architecture: demo/_fast.so: is for aarch64, but the tags claim manylinux_",
        todo="look for the step of a cross build that picked up a host object",
    ),
    "an inner package is missing from packages": not_in_wheel(
        "demo.inner",
        line=2,
        files=project(
            init=f"{INIT}from demo.inner import x\n", files={"demo/inner/__init__.py": "x = 1\n"}
        ),
    ),
    "a data file is missing from package_data": Mistake(
        files=project(
            init=f"{INIT}from importlib.resources import files\n"
            "TABLE = (files('demo') / 'table.json').read_text()\n",
            files={"demo/table.json": "{}\n"},
        ),
        shown="import-fails: import demo raises FileNotFoundError: [Errno 2] No such file or "
        "directory: 'demo/table.json' (demo/__init__.py:3): demo/table.json is not in the wheel",
        todo="include the module or the data in the package",
    ),
    "a requirement is not declared": Mistake(
        files=project(init=f"{INIT}import yaml\n"),
        shown="import-fails: import demo raises ModuleNotFoundError: No module named 'yaml' "
        "(demo/__init__.py:2): no Requires-Dist provides the module yaml",
        todo="add the project that has the module",
    ),
    "an entry point names a function that does not exist": Mistake(
        files=project('arguments["entry_points"] = {"console_scripts": ["demo = demo:main"]}'),
        shown="missing-entry-point: demo-1.0.dist-info/entry_points.txt: the command demo = "
        "demo:main raises AttributeError: module 'demo' has no attribute 'main'",
        todo="correct the entry point",
    ),
    "a program that may not be executed": Mistake(
        files=project(
            'arguments["package_data"] = {"demo": ["bin/*"]}',
            files={"tool.c": "int main(void) { return 0; }\n"},
        ),
        before="mkdir demo/bin; gcc tool.c -o demo/bin/tool; chmod -x demo/bin/tool",
        shown="program-not-executable: demo/bin/tool: is a program without the executable bit",
        todo="chmod +x",
    ),
    "an editable wheel": Mistake(
        files=project(),
        builds="backend",
        shown="editable-wheel: __editable__.demo-1.0.pth: is of an editable installation",
        todo="pip wheel .",
    ),
    "__version__ is not the version": Mistake(
        files=project(init=f"{INIT}__version__ = '0.9'\n"),
        shown="warning: version-disagrees: demo.__version__ is '0.9', METADATA says '1.0'",
        todo="take `__version__` from the same source as the build's version",
    ),
    "tests are installed at the top level": Mistake(
        files=project(
            'arguments["packages"] = find_packages()',
            files={"tests/__init__.py": "", "tests/test_demo.py": "def test_demo(): pass\n"},
        ),
        shown="warning: stray-top-level-folder: tests: 2 files at the top level of site-packages",
        todo="out of the wheel",
    ),
    "package_data takes everything": Mistake(
        files=project(
            'arguments["package_data"] = {"demo": ["**/*", "**/.*"]}',
            files={"demo/.gitignore": "*.so\n"},
        ),
        before=f"{sys.executable} -m compileall -q demo",
        shown="warning: bytecode-in-wheel: demo/__pycache__/__init__.",
        todo="exclude `__pycache__`",
    ),
    "the wheel is not repaired": Mistake(
        files=project(),
        tagged=False,
        shown="warning: platform-tag-refused: PyPI does not accept the platform tag linux_x86_64",
        todo="auditwheel repair",
    ),
}
