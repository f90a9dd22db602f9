"""Parts of a build for users: modules, commands, libraries, headers, files for build systems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from binary_checks.declaring import difference
from binary_checks.differences.changes import compare_names
from binary_checks.errors import Unavailable
from binary_checks.knowledge.inventory import PARTS, measure_parts
from binary_checks.knowledge.linked_libraries import (
    is_grafted,
    is_module_name,
    pair_objects,
    plain_path,
)
from binary_checks.model import (
    SCRIPT_GROUPS,
    Change,
    CppArchive,
    Distribution,
    Kind,
    ObjectFile,
    Package,
    Severity,
    StaticArchive,
    init_function,
    parse_extension_name,
)

_OF_TESTS = frozenset({"tests", "test", "conftest", "setup"})
_HEADER = re.compile(r".*\.(?:h|hh|hpp|hxx|cuh|inc|inl|ipp|tcc)")
_PRIVATE_HEADERS = re.compile(r"(?:^|/)(?:detail|impl|internal|private|native|test)s?/")
_OF_MYPYC = "__mypyc"  # begins with a hash of the sources


@difference
def import_names(old: Package, new: Package) -> Iterator[Change]:
    """The modules that users import, without private ones and tests.

    A module that became a package, or an extension module, is still the same module.
    """
    before, after = _find_modules(old), _find_modules(new)
    # A folder without __init__.py is a namespace package, which can be imported, too.
    before_too, after_too = before | _find_folders(old), after | _find_folders(new)
    gone, added = _leave_out_below(before - after_too), _leave_out_below(after - before_too)
    yield from compare_names("modules", gone, added)


@difference
def extension_modules(old: Package, new: Package) -> Iterator[Change]:
    """The private extension modules of a build, and modules whose init function is gone.

    Public modules are those of `import-names`. A module that became Python code is still there.
    """
    before, after = _find_extensions(old), _find_extensions(new)
    there, was_there = _find_modules(new, private=True), _find_modules(old, private=True)
    gone = [name for name in before.keys() - there if not _is_public(name.split("."))]
    added = [name for name in after.keys() - was_there if not _is_public(name.split("."))]
    yield from compare_names("extension modules", gone, added)
    for name in sorted(before.keys() & after.keys()):
        function = init_function(name.rpartition(".")[2])
        was, now = (
            any(item.exports.among((function,)) for item in found[name])
            for found in (before, after)
        )
        if was and not now:
            yield Change(
                severity=Severity.BREAK,
                subject=name,
                sentence=f"does not export {function} any more: its import fails",
                together="do not export their init functions any more: their imports fail",
                noun="extension modules",
            )


def _find_extensions(package: Package) -> dict[str, list[ObjectFile]]:
    """Return the files of each extension module.

    Helpers of mypyc are left out: their names differ between builds.
    """
    found: dict[str, list[ObjectFile]] = {}
    for item in package.objects:
        path = package.layout.inside(item.path)
        name = parse_extension_name(path) if path is not None else None
        if name and is_module_name(item) and not name.stem.endswith(_OF_MYPYC):
            found.setdefault(name.module, []).append(item)
    return found


def _find_folders(package: Package) -> set[str]:
    """Return the folders in site-packages that contain files, spelled as modules."""
    inside = ((package.layout.inside(member.path) or "") for member in package.members)
    folders = {PurePosixPath(path).parent for path in inside}
    every = {each for folder in folders for each in (folder, *folder.parents)}
    return {".".join(folder.parts) for folder in every if folder.parts}


def _find_modules(package: Package, *, private: bool = False) -> set[str]:
    found: set[str] = set()
    plain = {item.path for item in package.objects if not is_module_name(item)}
    for member in package.members:
        path = package.layout.inside(member.path)
        if path is None or member.is_directory or member.path in plain:
            continue
        extension = parse_extension_name(path)
        if extension is not None:
            name = extension.module if "." in extension.module or "/" not in path else ""
        elif path.endswith(".py"):
            name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        else:
            continue
        parts = name.split(".")
        if all(map(str.isidentifier, parts)) and (private or _is_public(parts)):
            found.add(name)
    return found


def _is_public(parts: list[str]) -> bool:
    if any(part.startswith("_") for part in parts) or _OF_TESTS.intersection(parts):
        return False
    if any(part.startswith("test_") for part in parts[1:]):
        return False
    return not (len(parts) == 1 and parts[0].startswith("lib"))


def _leave_out_below(names: set[str]) -> list[str]:
    """Return the names of modules that lie in no other package of the set."""
    return sorted(
        name
        for name in names
        if not any(name[:index] in names for index, char in enumerate(name) if char == ".")
    )


@difference
def entry_points(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The entry points of a build, without `commands`."""
    before, after = (
        {f"{group}: {name}" for group, name, _ in each.entry_points if group not in SCRIPT_GROUPS}
        for each in (old, new)
    )
    yield from compare_names("entry points", before - after, after - before)


@difference
def commands(old: Package, new: Package) -> Iterator[Change]:
    """The commands that a build installs, by entry points or as files."""
    before, after = _find_commands(old), _find_commands(new)
    yield from compare_names("commands", before - after, after - before)


def _find_commands(package: Package) -> set[str]:
    found: set[str] = set()
    if isinstance(package, Distribution):
        found.update(package.commands)
    folder = f"{package.layout.scripts}/"
    files = (m.path for m in package.members if m.path.startswith(folder) and not m.is_directory)
    names = (path.removeprefix(folder) for path in files)
    return found.union(
        re.sub(r"(?:-script\.pyw?|\.exe)$", "", name)
        for name in names
        if "/" not in name and not name.lower().endswith((".dll", ".pdb"))
    )


@difference
def libraries(old: Package, new: Package) -> Iterator[Change]:
    """The libraries of a build that others may link with or open.

    Extension modules are compared by the names under which they are imported, grafted libraries by
    `bundled-libraries`.
    """
    pairs = pair_objects(old, new)
    lost, found = _own(old, pairs.removed), _own(new, pairs.added)
    yield from compare_names("libraries", lost - _unknown(new), found - _unknown(old))
    before, after = ({item.architecture for item in each.objects} for each in (old, new))
    gone = sorted(before - after if after else ())
    if gone and _unknown(new):
        raise Unavailable(f"code for {', '.join(gone)}: not every object of the new build was read")
    for each in gone:
        yield Change(severity=Severity.BREAK, sentence=f"has no code for {each} any more")


def _own(package: Package, items: Iterable[ObjectFile]) -> set[str]:
    return {
        plain_path(package.layout, item.path)
        for item in items
        if (item.kind is Kind.SHARED or isinstance(item, StaticArchive))
        and not is_grafted(item)
        and not is_module_name(item)
    }


def _unknown(package: Package) -> set[str]:
    """Return the paths of objects that could not be read: they are neither gone nor new."""
    paths = [*(e.path for e in package.unread), *(e.path for e in package.malformed)]
    return {plain_path(package.layout, path) for path in paths}


@difference
def headers(old: Package, new: Package) -> Iterator[Change]:
    """The header files that C and C++ code includes, without those in folders of details."""
    before, after = (  # by their paths below ``include/``, wherever that folder is
        {
            build.layout.shorten(member.path).rpartition("include/")[2]
            for member in build.members
            if _HEADER.fullmatch(member.path) and not _PRIVATE_HEADERS.search(member.path)
        }
        for build in (old, new)
    )
    severity = Severity.BREAK if isinstance(old, CppArchive) else Severity.CHANGE
    yield from compare_names("headers", before - after, after - before, severity)


@difference
def cmake_packages(old: CppArchive, new: CppArchive) -> Iterator[Change]:
    """The packages that CMake's ``find_package`` finds in a build."""
    before, after = ({each.name for each in build.cmake_packages} for build in (old, new))
    yield from compare_names("CMake packages", before - after, after - before)


_SHARE, _LEAST = 0.05, 64 << 10  # a part's smallest change that is reported: share and bytes
_OF_ALL = 0.01  # the smallest change that is reported, as a share of the whole size
_JUMP = 0.25


@difference
def sizes(old: Package, new: Package) -> Iterator[Change]:
    """Bytes of the file and of its parts, if they change by at least 5 % and 64 kB."""
    # The size of an unpacked or installed package is the sum of its files.
    unpacked = [each.size == sum(item.size for item in each.members) for each in (old, new)]
    if old.size and new.size and unpacked[0] is unpacked[1]:
        yield from _compare_size("package file", old.size, new.size, jump=_JUMP)
    before, after = measure_parts(old), measure_parts(new)
    least = max(_LEAST, _OF_ALL * sum(each.size for each in after.values()))
    for part in PARTS:
        was, now = (found[part].size if part in found else 0 for found in (before, after))
        if abs(now - was) >= least:
            yield from _compare_size(part, was, now)


def _compare_size(what: str, was: int, now: int, jump: float = 0.0) -> Iterator[Change]:
    by = abs(now - was)
    if by < _LEAST or by < _SHARE * was:
        return
    grown = f"{'+' if now > was else '-'}{by / was:.0%}" if was else "new"
    large = jump and now > was and by >= jump * was
    digits = 1 if f"{now / 1e6:.1f}" != f"{was / 1e6:.1f}" else 2
    before, after = (f"{size / 1e6:,.{digits}f}" for size in (was, now))
    yield Change(
        severity=Severity.CHANGE if large else Severity.INFO,
        subject=what,
        sentence=f"{after} MB, previously {before} MB, {grown}",
        together="are larger or smaller",
        detail=f"{before} -> {after} MB {grown}",
        noun="parts",
    )
