"""What CMake, compilers and linkers say is read, and nothing of it is believed blindly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import PackageError, ProfileError
from binary_checks.model import ConsumerRequest, ImportedTarget
from binary_checks.probes.consume_cpp.cmake_project import (
    BUILD,
    Project,
    find_abi,
    read_configured,
)
from binary_checks.probes.consume_cpp.tools import find_first_error, find_undefined

TARGET = {
    "compileGroups": [
        {
            "compileCommandFragments": [
                {"fragment": "-O0 -std=gnu++17"},
                {"fragment": "'-DA=b c'"},
            ],
            "defines": [{"define": "_GLIBCXX_USE_CXX11_ABI=0"}],
            "includes": [{"path": "/p/include", "isSystem": True}, {"path": "/q"}],
        }
    ],
    "link": {"commandFragments": [{"fragment": "-Wl,-rpath,/p/lib"}, {"fragment": "/p/lib/x.so"}]},
}


def answer(folder: Path, target: object = TARGET, targets: str = "/p/lib/cmake/Demo\n") -> Path:
    """Write what CMake writes."""
    reply = folder / BUILD / ".cmake/api/v1/reply"
    reply.mkdir(parents=True)
    (folder / BUILD / "targets.txt").write_text(targets)
    files = {"inputs": [{"path": "/p/lib/cmake/Demo/DemoConfig.cmake"}]}
    model = {"configurations": [{"targets": [{"name": "consumer", "jsonFile": "target.json"}]}]}
    index = {
        "reply": {
            "cmakeFiles-v1": {"jsonFile": "files.json"},
            "codemodel-v2": {"jsonFile": "model.json"},
        }
    }
    parts: dict[str, Any] = {"files": files, "model": model, "target": target, "index-1": index}
    for name, value in parts.items():
        (reply / f"{name}.json").write_text(json.dumps(value))
    return reply


def test_the_flags_of_the_program_are_those_that_cmake_would_use(tmp_path: Path) -> None:
    answer(tmp_path)
    found = read_configured(tmp_path, Path("/p"))
    assert found.directory == "/p/lib/cmake/Demo"
    assert found.reads == ("/p/lib/cmake/Demo/DemoConfig.cmake",)
    assert found.compile_flags == (
        *("-O0", "-std=gnu++17", "-DA=b c", "-D_GLIBCXX_USE_CXX11_ABI=0"),
        *("-isystem", "/p/include", "-I", "/q"),
    )
    assert found.link_flags == ("-Wl,-rpath,/p/lib", "/p/lib/x.so")


def test_imported_targets_are_listed_with_their_files(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/libx.so").touch()
    rows = (
        "\n"
        f"x\tSHARED_LIBRARY\t{tmp_path.as_posix()}/lib/libx.so\n"
        f"y\tSTATIC_LIBRARY\t{tmp_path.as_posix()}/lib/liby.a\n"
        "z\tINTERFACE_LIBRARY\tfile-NOTFOUND\n"
        "m\tUNKNOWN_LIBRARY\tm\n"
    )
    answer(tmp_path, targets=rows)
    assert read_configured(tmp_path, tmp_path).targets == (
        ImportedTarget(name="x", kind="SHARED_LIBRARY", file="lib/libx.so"),
        ImportedTarget(name="y", kind="STATIC_LIBRARY", file="lib/liby.a", is_absent=True),
        ImportedTarget(name="z", kind="INTERFACE_LIBRARY"),
        ImportedTarget(name="m", kind="UNKNOWN_LIBRARY", file="m"),
    )


@pytest.mark.parametrize("target", [[], {"link": []}, {"compileGroups": {}}, {"link": {"x": 1}}])
def test_an_answer_of_another_shape_has_no_flags(target: object, tmp_path: Path) -> None:
    answer(tmp_path, target)
    found = read_configured(tmp_path, Path("/p"))
    assert (found.compile_flags, found.link_flags) == ((), ())


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "\0"])
def test_an_answer_that_is_no_json_is_refused(text: str, tmp_path: Path) -> None:
    (answer(tmp_path) / "target.json").write_text(text)
    with pytest.raises(PackageError, match=r"target.json, which CMake writes, is not valid JSON"):
        read_configured(tmp_path, Path("/p"))


def test_an_answer_elsewhere_is_not_followed_and_without_one_nothing_is_known(
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text(json.dumps(TARGET))
    reply = answer(tmp_path)
    model = {"configurations": [{"targets": [{"name": "consumer", "jsonFile": str(secret)}]}]}
    (reply / "model.json").write_text(json.dumps(model))
    with pytest.raises(PackageError, match="no such file"):
        read_configured(tmp_path, Path("/p"))
    (reply / "index-1.json").unlink()
    with pytest.raises(PackageError, match="did not answer the query about the project"):
        read_configured(tmp_path, Path("/p"))


@pytest.mark.parametrize(
    "flags, default, value",
    [
        ((), "1", "1"),
        (("-D_GLIBCXX_USE_CXX11_ABI=0",), "1", "0"),
        (("-D_GLIBCXX_USE_CXX11_ABI=0", "-D_GLIBCXX_USE_CXX11_ABI=1"), "0", "1"),
        (("-D_GLIBCXX_USE_CXX11_ABI=0",), "", ""),  # the compiler has no libstdc++
    ],
)
def test_the_abi_is_that_of_the_flags_or_the_compilers(
    flags: tuple[str, ...], default: str, value: str
) -> None:
    assert find_abi(flags, default) == value


def test_a_project_finds_the_package_and_links_all_that_is_imported(tmp_path: Path) -> None:
    Project(package="Demo", components=("a", "b"), standard=17).write(tmp_path)
    text = (tmp_path / "CMakeLists.txt").read_text()
    assert "find_package(Demo REQUIRED COMPONENTS a b)" in text
    assert "target_link_libraries(consumer PRIVATE ${imported})" in text
    assert "CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON" in text


def test_a_unit_links_what_its_users_would_by_the_standard_of_the_compiler(tmp_path: Path) -> None:
    unit = Project(
        package="Torch",
        source="int main() {}",
        libraries=("${TORCH_LIBRARIES}",),
        standard=ConsumerRequest().standard,
    )
    unit.write(tmp_path)
    text = (tmp_path / "CMakeLists.txt").read_text()
    assert "CXX_STANDARD" not in text
    assert "target_link_libraries(consumer PRIVATE ${TORCH_LIBRARIES})" in text
    assert (tmp_path / "main.cpp").read_text() == "int main() {}"


@pytest.mark.parametrize("name", ["X) message(x", "", "${X}", "X;Y", "-X", 'X"'])
def test_a_name_that_is_none_is_never_written(name: str, tmp_path: Path) -> None:
    for project in (Project(package=name), Project(package="X", components=(name,))):
        with pytest.raises(ProfileError, match="is not a valid name in CMake"):
            project.write(tmp_path)
    assert not (tmp_path / "CMakeLists.txt").exists()


# Of what build tools write, the line that matters is shown.

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
def test_the_first_error_is_found_and_a_long_line_is_cut(output: str, error: str) -> None:
    assert find_first_error(output) == error
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
