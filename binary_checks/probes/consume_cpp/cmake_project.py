"""A CMake project with one program, written for a unit and read once it is configured."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binary_checks.errors import PackageError, ProfileError
from binary_checks.model import ImportedTarget
from binary_checks.probes.answers import list_rows
from binary_checks.trees.file_bytes import open_bytes

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
"""The name of a package or a component."""
BUILD, SOURCE, PROGRAM = "build", "main.cpp", "consumer"
_TARGETS = "targets.txt"
_QUERIES = ("codemodel-v2", "cmakeFiles-v1")
# The project lists the targets of find_package with their files, read from properties: a generator
# expression for a missing file would abort the configuration.
_PROJECT = """\
cmake_minimum_required(VERSION 3.21)
project(consumer LANGUAGES CXX)
find_package({package} REQUIRED{components})
get_property(found DIRECTORY PROPERTY IMPORTED_TARGETS)
set(imported "")
set(report "${{{package}_DIR}}\\n")
foreach(target IN LISTS found)
  get_target_property(kind ${{target}} TYPE)
  get_target_property(file ${{target}} IMPORTED_LOCATION_RELEASE)
  if(NOT file)
    get_target_property(file ${{target}} IMPORTED_LOCATION)
  endif()
  if(NOT file)
    get_target_property(known ${{target}} IMPORTED_CONFIGURATIONS)
    if(known)
      list(GET known 0 first)
      get_target_property(file ${{target}} IMPORTED_LOCATION_${{first}})
    endif()
  endif()
  string(APPEND report "${{target}}\\t${{kind}}\\t${{file}}\\n")
  set(own TRUE)
  if(file)
    cmake_path(IS_PREFIX CMAKE_PREFIX_PATH "${{file}}" NORMALIZE own)
  endif()
  if(own AND kind MATCHES "^(SHARED|STATIC|UNKNOWN|INTERFACE)_LIBRARY$")
    list(APPEND imported ${{target}})
  endif()
endforeach()
file(WRITE "${{CMAKE_BINARY_DIR}}/targets.txt" "${{report}}")
add_executable(consumer main.cpp)
target_compile_definitions(consumer PRIVATE {defines})
target_link_libraries(consumer PRIVATE {libraries})
"""
_STANDARD = """\
set_target_properties(consumer PROPERTIES CXX_STANDARD {} CXX_STANDARD_REQUIRED ON)
"""
# Otherwise a linker that uses --as-needed by default, as Ubuntu's does, drops libraries that the
# program does not use.
_ALL = """\
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(consumer PRIVATE "LINKER:--no-as-needed")
endif()
"""
_EXAMPLE = """\
#include <cstdio>
int main() {
  std::puts(CONSUMER_VERSION);
  return 0;
}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """The contents of a project's two files."""

    package: str
    source: str = _EXAMPLE
    components: tuple[str, ...] = ()
    # () links all imported libraries of the package itself, without those of the host that it finds
    libraries: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    standard: int = 0

    def write(self, folder: Path) -> None:
        """Write the project below the folder, with queries to CMake about the project.

        Raises ProfileError for an invalid name.
        """
        for name in (self.package, *self.components):
            if not NAME.fullmatch(name):
                raise ProfileError(f"probes.consumer: {name!r} is not a valid name in CMake")
        query = folder / BUILD / ".cmake" / "api" / "v1" / "query"
        query.mkdir(parents=True)
        for name in _QUERIES:
            (query / name).touch()
        (folder / "CMakeLists.txt").write_text(self._format_project(), encoding="utf-8")
        (folder / SOURCE).write_text(self.source, encoding="utf-8")

    def _format_project(self) -> str:
        components = f" COMPONENTS {' '.join(self.components)}" if self.components else ""
        version = f'"CONSUMER_VERSION=\\"${{{self.package}_VERSION}}\\""'
        text = _PROJECT.format(
            package=self.package,
            components=components,
            defines=" ".join((version, *(f"[==[{each}]==]" for each in self.defines))),
            libraries=" ".join(self.libraries) or "${imported}",
        )
        standard = _STANDARD.format(self.standard) if self.standard else ""
        return text + standard + (_ALL if not self.libraries else "")


@dataclass(frozen=True, kw_only=True, slots=True)
class Configured:
    """The data that CMake writes about a configured project."""

    # the folder with the package's files for CMake; "" if one of CMake's modules found the package
    directory: str = ""
    targets: tuple[ImportedTarget, ...] = ()
    reads: tuple[str, ...] = ()  # absolute paths of the files that CMake read
    compile_flags: tuple[str, ...] = ()
    link_flags: tuple[str, ...] = ()


def read_configured(folder: Path, prefix: Path) -> Configured:
    """Read the data that CMake wrote about the project. Raises PackageError if it is invalid."""
    build = folder / BUILD
    directory, *rows = _read(build / _TARGETS).splitlines() or [""]
    index = max((build / ".cmake/api/v1/reply").glob("index-*.json"), default=None)
    if index is None:
        raise PackageError("CMake did not answer the query about the project (its file API)")
    replies = _load(index).get("reply")
    answer = replies if isinstance(replies, dict) else {}
    files = _follow(index.parent, answer.get("cmakeFiles-v1"))
    target = _find_target(index.parent, _follow(index.parent, answer.get("codemodel-v2")))
    return Configured(
        directory=directory,
        targets=tuple(_read_targets(rows, prefix)),
        reads=tuple(str(each.get("path", "")) for each in list_rows(files, "inputs")),
        compile_flags=tuple(_read_compile_flags(target)),
        link_flags=tuple(_read_link_flags(target)),
    )


def _read(path: Path) -> str:
    with open_bytes(path) as file:
        return file.read(0, file.size).decode("utf-8", "replace")


def _load(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(_read(path))
    except (ValueError, RecursionError):
        raise PackageError(f"{path.name}, which CMake writes, is not valid JSON") from None
    return found if isinstance(found, dict) else {}


def _follow(folder: Path, reference: object) -> Mapping[str, Any]:
    """Read the reply that a reference names; it is in the same folder."""
    name = reference.get("jsonFile") if isinstance(reference, dict) else None
    return _load(folder / Path(name).name) if isinstance(name, str) and name else {}


def _read_targets(rows: Sequence[str], prefix: Path) -> Iterator[ImportedTarget]:
    for row in rows:
        name, _, rest = row.partition("\t")
        kind, _, file = rest.partition("\t")
        known = "" if file.endswith("-NOTFOUND") else file
        # A name that is not a path is passed to the linker.
        absent = Path(known).is_absolute() and not Path(known).exists()
        shown = known.removeprefix(f"{prefix.as_posix()}/")
        yield ImportedTarget(name=name, kind=kind, file=shown, is_absent=absent)


def _find_target(folder: Path, model: Mapping[str, Any]) -> Mapping[str, Any]:
    for configuration in list_rows(model, "configurations"):
        for target in list_rows(configuration, "targets"):
            if target.get("name") == PROGRAM:
                return _follow(folder, target)
    return {}


def _read_compile_flags(target: Mapping[str, Any]) -> Iterator[str]:
    for group in list_rows(target, "compileGroups"):
        for each in list_rows(group, "compileCommandFragments"):
            yield from _split(each.get("fragment"))
        for each in list_rows(group, "defines"):
            yield f"-D{each.get('define')}"
        for each in list_rows(group, "includes"):
            option = "-isystem" if each.get("isSystem") else "-I"
            yield from (option, str(each.get("path")))


def _read_link_flags(target: Mapping[str, Any]) -> Iterator[str]:
    link = target.get("link")
    for each in list_rows(link, "commandFragments") if isinstance(link, dict) else ():
        yield from _split(each.get("fragment"))


def _split(fragment: object) -> list[str]:
    try:
        return shlex.split(fragment) if isinstance(fragment, str) else []
    except ValueError:
        return []


ABI_MACRO = "_GLIBCXX_USE_CXX11_ABI"
"""The macro that selects one of the two ABIs of libstdc++: 0 or 1."""
_ABI_FLAG = re.compile(rf"-D{ABI_MACRO}=([01])$")


def find_abi(flags: Sequence[str], default: str) -> str:
    """Return the ABI that the last of these flags selects, or else the compiler's default.

    Return "" for a compiler without libstdc++, whose default is "".
    """
    found = [match[1] for match in map(_ABI_FLAG.match, flags) if match]
    return found[-1] if found and default else default
