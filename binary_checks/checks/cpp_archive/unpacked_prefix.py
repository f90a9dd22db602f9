"""What an archive of C++ libraries must have, and what belongs into a package for Python alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.python_symbols import find_python_symbols
from binary_checks.model import (
    Finding,
    Format,
    Kind,
    Level,
    Member,
    NotInspected,
    Problem,
    StaticArchive,
)
from binary_checks.model.packages import CppArchive
from binary_checks.wording.phrases import name_first

_LIBTORCH = "libtorch"
_OF_LIBTORCH = {
    "share/cmake/Torch/TorchConfig.cmake": "find_package(Torch) does not find it",
    "build-version": "nobody can tell which version it is",
    "build-hash": "nobody can tell which commit it was built from",
}
_HEADER = (".h", ".hh", ".hpp", ".hxx", ".cuh")
_LIBPYTHON = re.compile(
    r"(?:.*/)?(?:libpython[23][\d.]*[a-z]*(?:\.so[\d.]*|\.dylib)|Python3?|python3?\d*t?\.dll)",
    re.IGNORECASE,
)
_OF_A_PYTHON = re.compile(r"(?:lib(?:64)?/python\d\.\d+t?|Lib)/os\.py")
_FOR_PYTHON = re.compile(r"(?:lib)?torch_python\.|(?!.*-gdb\.py).*\.py[dic]?\Z")  # for debuggers
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@check
def missing_prefix_part(package: CppArchive) -> Iterator[Finding]:
    """An archive of C++ libraries lacks a part that users need to build with it.

    Any such archive needs headers below ``include``; libtorch's also ``TorchConfig.cmake``,
    ``build-version`` and ``build-hash``.

    Why: the first ``#include`` or ``find_package`` of a user's project fails.
    Fix: install the missing part into the prefix before it is packed.
    Level: users cannot build with it. Without ``build-version`` or ``build-hash`` they only cannot
    tell what they have, and what is not libtorch may be for running alone: these are warnings.
    """
    files = [each for each in package.members if not each.is_directory]
    if not any(_is_header(each) for each in files):
        sentence = "has no headers: nobody can compile against it"
        level = Level.ERROR if package.name == _LIBTORCH else Level.WARNING
        yield Problem(path="include", sentence=sentence, level=level)
    if package.name != _LIBTORCH:
        return
    present = {each.path for each in files}
    for path, harm in _OF_LIBTORCH.items():
        if path not in present:
            level = Level.ERROR if path.endswith(".cmake") else Level.WARNING
            yield Problem(path=path, sentence=f"is not in the archive: {harm}", level=level)


def _is_header(member: Member) -> bool:
    inside = member.path.startswith("include/")
    last = member.path.rpartition("/")[2]
    return inside and (last.endswith(_HEADER) or "." not in last)  # Eigen/Core


@check
def build_contradicts_name(package: CppArchive) -> Iterator[Finding]:
    """What an archive holds is not what the name of its file says.

    The version in ``build-version``, a commit in ``build-hash``, static or shared libraries, a
    debug build.

    Why: users and mirrors choose by the name; the wrong variant fails at their first link.
    Fix: look for the step that names the file, or for a variable that the build left unset.
    Level: users get another build than they chose. A ``build-hash`` that names no commit is a
    warning.
    """
    if not (
        package.version or package.build_version or package.build_hash or package.stated.linking
    ):
        raise NotApplicable("neither its name nor its files say which build it is")
    stated = package.build_version
    if stated and package.version and _plain(stated) != _plain(package.version):
        sentence = f"says {stated}, the file's name {package.version}"
        yield Problem(path="build-version", sentence=sentence)
    if package.build_hash and not _COMMIT.fullmatch(package.build_hash):
        yield Problem(
            path="build-hash",
            sentence=f"says {package.build_hash[:60]!r}, which is no commit",
            level=Level.WARNING,
        )
    yield from _judge_linking(package)


def _plain(version: str) -> str:
    return version.strip().lower().removeprefix("v").replace("-", "+")


def _judge_linking(package: CppArchive) -> Iterator[Finding]:
    """Whether it has libraries of the sort that its name promises."""
    linking = package.stated.linking
    shared = [item for item in package.objects if item.kind is Kind.SHARED]
    static = [item for item in package.objects_of(StaticArchive) if not _is_import(item)]
    unread = package.malformed or package.unread
    for sort, found in (("static", static), ("shared", shared)):
        if linking != sort or found:
            continue
        if unread:
            lack = f"whether it has {sort} libraries is not known: some files were not read"
            yield NotInspected(sentence=lack)
        else:
            yield Problem(sentence=f"its name says {sort}, and it has no {sort} library")


def _is_import(item: StaticArchive) -> bool:
    """Whether it only names the functions of a DLL."""
    return any(each.format == "import" for each in item.members)


@check
def python_in_cpp_archive(package: CppArchive) -> Iterator[Finding]:
    """An archive of C++ libraries has parts that only a package for Python needs.

    A library in ``lib`` or ``bin`` that needs libpython or symbols of Python; ``libtorch_python``;
    Python code and extension modules in ``lib`` and ``include``.

    Why: a program that is linked with such a library needs a Python of that very version, or does
    not link at all; the rest is dead weight.
    Fix: leave out what was built for the wheel.
    Level: programs of C++ users have no Python. A library whose name says that it is for Python
    (``libboost_python311.so``), and files that no program is linked with, are warnings.
    """
    if any(_OF_A_PYTHON.fullmatch(member.path) for member in package.members):
        raise NotApplicable("a prefix with a Python of its own")
    for item in package.objects:
        if item.kind is not Kind.SHARED:
            continue
        linked = item.directory in {"lib", "lib64", "bin"} and "py" not in item.file_name.lower()
        level = Level.ERROR if linked else Level.WARNING
        if item.format == Format.ELF and any(_LIBPYTHON.fullmatch(n.name) for n in item.needed):
            continue  # libpython-linked says it
        if needed := [need.name for need in item.needed if _LIBPYTHON.fullmatch(need.name)]:
            sentence = f"needs {name_first(needed)}, which C++ users do not have"
            yield Problem(path=item.path, sentence=sentence, level=level)
        elif asked := sorted(find_python_symbols(item).names):
            sentence = f"needs symbols of Python ({name_first(asked)}), which C++ users do not have"
            yield Problem(path=item.path, sentence=sentence, level=level)
    told = {item.path for item in package.objects}
    for member in package.members:
        folder, _, last = member.path.rpartition("/")
        inside = f"{folder}/".startswith(("lib/", "include/"))
        if inside and member.path not in told and _FOR_PYTHON.match(last):
            sentence = "is for Python alone"
            yield Problem(path=member.path, sentence=sentence, level=Level.WARNING)
