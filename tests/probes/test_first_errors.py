"""Of what build tools write, the line that matters is shown."""

from __future__ import annotations

import pytest

from binary_checks.probes.consume_cpp.tools import find_first_error, find_undefined

GCC = """\
In file included from main.cpp:1:
include/demo.h:3:10: fatal error: gone.h: No such file or directory
    3 | #include <gone.h>
compilation terminated.
ninja: build stopped: subcommand failed.
"""
LD = """\
/usr/bin/ld: main.o: in function `main':
main.cpp:(.text+0x66): undefined reference to `_ZN3c106detail4failERKSs'
/usr/bin/ld: main.cpp:(.text+0x80): undefined reference to `_ZN3c106detail4failERKSs'
/usr/bin/ld: main.cpp:(.text+0x90): undefined reference to `demo::other(int)'
collect2: error: ld returned 1 exit status
"""
LLD = """\
ld.lld: error: undefined symbol: _ZN4demo4failERKSs
>>> referenced by main.cpp
clang++: error: linker command failed with exit code 1 (use -v to see invocation)
"""
MOLD = "mold: error: undefined symbol: main.o: _ZN4demo4failERKSs\n"
CMAKE = """\
-- Detecting CXX compiler ABI info
CMake Error at lib/cmake/Demo/DemoTargets.cmake:80 (message):
  The imported target "Demo::demo" references the file

     "lib/libdemo.so"

  but this file does not exist.  Possible reasons include:

  * The file was deleted, renamed, or moved to another location.

Call Stack (most recent call first):
  CMakeLists.txt:3 (find_package)
"""
BARE = (
    "CMake Error: Could not find cmake module file: X.cmake\nCMake Error at a.cmake:2 (y):\n  z\n"
)
GENERATING = """\
-- Configuring done
CMake Error in CMakeLists.txt:
  Imported target "Demo::demo" includes non-existent path

    "/project/build/include"

  in its INTERFACE_INCLUDE_DIRECTORIES.  Possible reasons include:

-- Generating done
CMake Generate step failed.  Build files cannot be regenerated correctly.
"""
LOADER = (
    "./consumer: error while loading shared libraries: libx.so: cannot open shared object file\n"
)


@pytest.mark.parametrize(
    "output, error",
    [
        (GCC, "include/demo.h:3:10: fatal error: gone.h: No such file or directory"),
        (LD, "main.cpp:(.text+0x66): undefined reference to `_ZN3c106detail4failERKSs'"),
        (LLD, "ld.lld: error: undefined symbol: _ZN4demo4failERKSs"),
        (
            GENERATING,
            'Imported target "Demo::demo" includes non-existent path "/project/build/include" '
            "in its INTERFACE_INCLUDE_DIRECTORIES.",
        ),
        (
            CMAKE,
            'lib/cmake/Demo/DemoTargets.cmake:80: The imported target "Demo::demo" references the '
            'file "lib/libdemo.so" but this file does not exist.',
        ),
        (BARE, "Could not find cmake module file: X.cmake"),
        (LOADER, LOADER.strip()),
        ("one\n\ntwo\n", "two"),
        ("", ""),
    ],
)
def test_the_first_error_is_found(output: str, error: str) -> None:
    assert find_first_error(output) == error


def test_a_long_line_is_cut() -> None:
    assert len(find_first_error("x: error: " + "y" * 5000)) < 700


@pytest.mark.parametrize(
    "output, names",
    [
        (LD, ("_ZN3c106detail4failERKSs", "demo::other(int)")),
        (LLD, ("_ZN4demo4failERKSs",)),
        (MOLD, ("_ZN4demo4failERKSs",)),
        ("", ()),
    ],
)
def test_the_names_that_a_linker_did_not_find(output: str, names: tuple[str, ...]) -> None:
    assert find_undefined(output) == names
