"""CMake itself says where the code that we only read leads to."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.model.cmake import PathRole
from binary_checks.model.cpp_archive import CppArchive
from binary_checks.packages import open_package
from fixtures.build_cpp_archive import CONFIG, TARGETS, build_cpp_archive
from fixtures.build_elf import build_elf

pytestmark = pytest.mark.slow

CMAKE = shutil.which("cmake")
HERE = "${CMAKE_CURRENT_LIST_DIR}"
CODES = {
    "as it is": CONFIG,
    "twice": CONFIG + CONFIG,
    "if it is on": f"if(ON AND NOT OFF)\n{CONFIG}endif()",
    "if it is off": f"if(OFF OR 0)\n{CONFIG}endif()",
    "else": f"if(0)\nelseif(NO)\nelse()\n{CONFIG}endif()",
    "a variable": f'set(A "YES")\nif(A)\n{CONFIG}endif()',
    "an unset one": f'set(A "YES")\nunset(A)\nif(A)\n{CONFIG}endif()',
    "numbers": f"if(3 GREATER_EQUAL 4 OR (2 LESS 3))\n{CONFIG}endif()",
    "texts": f'set(A x)\nif(A STREQUAL "x")\n{CONFIG}endif()',
    "behind a return": f"return()\n{CONFIG}",
    "a loop": f'foreach(a IN ITEMS Demo)\ninclude("{HERE}/${{a}}Targets.cmake")\nendforeach()',
    "a list": "list(APPEND l DemoTargets)\nforeach(a IN LISTS l)\n"
    f'include("{HERE}/${{a}}.cmake")\nendforeach()',
    "an empty list": f"set(l)\nforeach(a IN LISTS l)\n{CONFIG}endforeach()",
    "a macro": f'macro(m a)\ninclude("{HERE}/${{a}}.cmake")\nendmacro()\nm(DemoTargets)',
    "a function": f'function(f)\ninclude("{HERE}/${{ARGN}}.cmake")\nendfunction()\nf(DemoTargets)',
    "no function": f"function(f)\n{CONFIG}endfunction()",
    "a name": f'set(A B)\nset(B DemoTargets)\ninclude("{HERE}/${{${{A}}}}.cmake")',
    "files": f'file(GLOB l "{HERE}/DemoT*.cmake")\n'
    'foreach(a ${l})\ninclude("${a}")\nendforeach()',
    "a folder": f'get_filename_component(d "{HERE}/../Demo" ABSOLUTE)\n'
    'include("${d}/DemoTargets.cmake")',
    "in a block": f"#[[\n{CONFIG}]]",
    "a bracket": f"set(A [=[{CONFIG}]=])",
    "another package": "include(CMakeFindDependencyMacro)\nfind_dependency(Second)",
    "what exists": f'if(EXISTS "{HERE}/DemoTargets.cmake")\n{CONFIG}endif()',
    "what does not": f'if(EXISTS "{HERE}/Gone.cmake")\n{CONFIG}endif()',
}
CHECK = """
foreach(f IN LISTS _cmake_import_check_files_for_demo)
  if(NOT EXISTS "${f}")
    message(FATAL_ERROR "it is gone")
  endif()
endforeach()
"""


def find_package(prefix: Path, folder: Path) -> bool:
    """Whether CMake finds that a file is gone."""
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(t NONE)\nfind_package(Demo REQUIRED)\n"
    )
    command = [str(CMAKE), "-S", folder, "-B", folder / "b", f"-DCMAKE_PREFIX_PATH={prefix}"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0 or "it is gone" in ended.stderr, ended.stderr
    return ended.returncode != 0


@pytest.mark.skipif(CMAKE is None, reason="no cmake")
@pytest.mark.parametrize("code", CODES.values(), ids=CODES.keys())
def test_cmake_comes_to_what_we_come_to(tmp_path: Path, code: str) -> None:
    members: dict[str, bytes | str] = {
        "lib/libother.so": build_elf(),
        "share/cmake/Demo/DemoConfig.cmake": code,
        "share/cmake/Demo/DemoTargets.cmake": f"if(NOT TARGET demo)\n{TARGETS}endif(){CHECK}",
    }
    if "Second" in code:
        members["share/cmake/Second/SecondConfig.cmake"] = CONFIG.replace("}/", "}/../Demo/")
    built = build_cpp_archive(tmp_path, members)
    package = open_package(built, objects)
    assert isinstance(package, CppArchive)
    shutil.unpack_archive(built, tmp_path / "unpacked")
    named = package.build_files.paths
    ours = [e for e in named if e.role is PathRole.CHECKED and "Demo" in e.reached and e.certain]
    assert find_package(tmp_path / "unpacked" / "demo", tmp_path / "user") is bool(ours)
