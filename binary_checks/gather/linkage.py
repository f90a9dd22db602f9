"""Simulation of the target system's loader on a package and the packages alongside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial

from binary_checks import loaders
from binary_checks.declaring import gathers
from binary_checks.errors import BinaryChecksError, Unavailable
from binary_checks.gather.companions import Companions
from binary_checks.gather.member_contents import LARGEST, MemberContents
from binary_checks.knowledge.cuda import find_copies
from binary_checks.knowledge.library_names import DRIVER_LIBRARIES, is_driver_library
from binary_checks.knowledge.loaded_files import mark_proven
from binary_checks.knowledge.tags import lowest_policy, needed_of_system
from binary_checks.loaders.reach import find_dispensable_objects
from binary_checks.loaders.required_packages import find_loaded_before, is_in_doubt, leave_open
from binary_checks.model import (
    CodeNames,
    ContentRequest,
    ElfFile,
    ImportOpenings,
    Installed,
    Kind,
    Linkage,
    LoadedTogether,
    LowestPolicy,
    Member,
    Package,
    Simulation,
    Source,
    TargetSystem,
    TreeEntry,
    format_of_name,
    is_extension,
    parse_extension_name,
)
from binary_checks.python_code.dll_directories import is_source
from binary_checks.python_code.guarded_code import TriedImports, find_openings
from binary_checks.python_code.named_files import (
    FileNames,
    LoadingWords,
    NameSearch,
    find_spelled,
    opens_files,
    read_words,
)
from binary_checks.python_code.parsing import LeftAloneError


@gathers(Simulation)
def simulate_loader(
    source: Source,
    code: OwnCode,
    target: TargetSystem,
    companions: Companions,
    installed: Installed | None,
) -> Simulation:
    """Load the objects of the package and of its requirements as the system would.

    If libraries are missing, look for them in the environment into which this run installed the
    package.
    """
    linkage, beside = _simulate(source, code, target, companions), None
    missing = any(
        edge.resolved is None and not is_driver_library(edge.needed) for edge in linkage.edges
    )
    if (
        installed is not None
        and linkage.requirements  # which were not given, but may provide the missing libraries
        and (missing or linkage.unexplored or linkage.unresolved)
    ):
        beside = installed.source
        again = _simulate(source, code, target, companions, beside)
        linkage = replace(again, refused=linkage.refused)
    dispensable = find_dispensable_objects(
        code.package, linkage, code.names, code.find_tried(linkage)
    )
    linkage = replace(linkage, dispensable=tuple(dispensable))
    return Simulation(linkage=linkage, installed=beside)


@gathers(Linkage)
def confirm_linkage(
    simulation: Simulation, package: Package, loaded: LoadedTogether | None
) -> Linkage:
    """Return the simulated linkage, with what processes prove if this run imports the package."""
    if loaded is None or not loaded.processes:
        return simulation.linkage
    return mark_proven(simulation.linkage, loaded, package)


def _simulate(
    source: Source,
    code: OwnCode,
    target: TargetSystem,
    companions: Companions,
    installed: Source | None = None,
) -> Linkage:
    """Load the objects; if doubts remain, load them again after libraries loaded by other imports.

    ``installed`` is the same package, installed in an environment next to other packages.
    """
    package = code.package
    alongside = companions.find_alongside(installed or source, package, target)
    others, requirements = alongside.packages, alongside.requirements
    simulate = partial(loaders.simulate, package, target, others, requirements)
    linkage = simulate()
    if not is_in_doubt(linkage):
        return linkage
    words = code.read_loading_words()
    before = find_loaded_before(linkage, words, others, target)
    if before.loads:
        linkage = leave_open(simulate(first_loads=before.loads), before.doubtful)
    return replace(linkage, loading_code=words.loading, loads_everywhere=words.everywhere)


# The package's own Python code, searched for the names of its objects.

_CALLED = re.compile(rb"^(?:\w+ *= *)?(?:\w+\.)*(\w{1,128})\(", re.MULTILINE)
"""Functions that a module calls when it is imported; only lines without indentation count."""
_SCRIPT = 64 << 10  # bytes of a script without a suffix
_LOADED = (Kind.SHARED, Kind.EXECUTABLE)


def _is_code(entry: TreeEntry) -> bool:
    return is_source(entry.name) or _is_script(entry.name, entry.size, entry.mode)


def _is_script(name: str, size: int, mode: int) -> bool:
    file_name = name.rpartition("/")[2]
    return (
        size <= _SCRIPT
        and ("." not in file_name or file_name.endswith(".sh"))
        and bool(mode & 0o100 or ".data/scripts/" in name)
    )


def _may_be_object(entry: TreeEntry) -> bool:
    """Return whether a member has the name of a library or program, but not of a script."""
    name = entry.name.rpartition("/")[2]
    called = format_of_name(name) is not None or name.endswith(".exe")
    return called or ("." not in name and entry.size > _SCRIPT)


CODE = ContentRequest(chooses=_is_code, longest=LARGEST, only_with=_may_be_object)
"""The package's code, in which facts search for the names of its objects. It is requested only if
the package may contain objects.
"""


class OwnCode:
    """A package's own code, searched for uses of the package's objects."""

    def __init__(self, package: Package, contents: MemberContents) -> None:
        self.package = package
        self._contents = contents

    @cached_property
    def names(self) -> CodeNames:
        """Return which objects the package's code names; extension modules are left out.

        Sources that cannot be read are listed in the result; nothing is raised.
        """
        objects, layout = self.package.objects, self.package.layout
        needed = {need.name.rpartition("/")[2] for item in objects for need in item.needed}
        # No import statement loads these objects, and no repair tool grafted them.
        candidates = {
            layout.shorten(item.path): tuple(
                filter(None, (item.file_name, item.name.rpartition("/")[2]))
            )
            for item in objects
            if item.kind in _LOADED
            and not is_extension(item)
            and not (item.file_name in needed and ".libs/" in item.path)
        }
        if not candidates:
            return CodeNames()
        search, changes_modes = NameSearch(FileNames(candidates)), False
        try:
            for path, content in self._read_sources():
                search.see(path, content)
                changes_modes = changes_modes or b"chmod" in content
        except (BinaryChecksError, OSError) as error:
            return CodeNames(unread=str(error))
        found = search.conclude()
        return CodeNames(
            named=frozenset(map(layout.place, found.named)),
            completed=frozenset(map(layout.place, found.completed)),
            assembled=frozenset(map(layout.place, found.assembled)),
            guided=frozenset(map(layout.place, found.guided)),
            modules=found.modules,
            changes_modes=changes_modes,
        )

    def find_import_openings(self) -> ImportOpenings:
        """Return which objects the package's code opens by path, and when.

        If a call does not name the file, count all files that the source names.
        """
        sources: dict[str, bytes] = {}
        called: set[str] = set()
        candidates = {
            self.package.layout.shorten(item.path): (item.file_name,)
            for item in self.package.objects
            if item.kind is Kind.SHARED
            and ".libs/" not in item.path
            # code that opens a name of the driver's means the user's driver
            and not is_driver_library(item.file_name)
        }
        names, place = FileNames(candidates), self.package.layout.place
        demanded, tried, late, unfollowed = set[str](), set[str](), set[str](), set[str]()
        try:
            for path, content in self._read_sources():
                called.update(name.decode() for name in _CALLED.findall(content))
                if opens_files(content):
                    sources[path] = content
            for path, content in sources.items():
                spelled = find_spelled(names, path, content)
                try:
                    openings = find_openings(content, called)
                except LeftAloneError:
                    unfollowed |= spelled
                    continue
                for each in openings:
                    found = find_spelled(names, path, each.code.encode())
                    chosen = late if each.late else tried if each.tried else demanded
                    chosen |= found if found or each.literal else spelled
        except (BinaryChecksError, OSError):
            unfollowed.update(candidates)
        return ImportOpenings(
            demanded=frozenset(map(place, demanded)),
            tried=frozenset(map(place, tried - demanded)),
            later=frozenset(map(place, late - demanded)),
            unfollowed=frozenset(map(place, unfollowed - demanded)),
        )

    def find_tried(self, linkage: Linkage) -> frozenset[str]:
        """Return extension modules that lack a library but are imported only under ``try``."""
        lacking = {
            edge.path
            for edge in linkage.edges
            if edge.resolved is None and not (edge.elsewhere or edge.weak or edge.delayed)
        }
        shorten = self.package.layout.shorten
        names = {
            item.path: parse_extension_name(shorten(item.path))
            for item in self.package.objects
            if item.path in lacking and is_extension(item)
        }
        modules = {path: name.module for path, name in names.items() if name is not None}
        if not modules:
            return frozenset()
        search = TriedImports(frozenset(modules.values()))
        try:
            for path, content in self._read_sources():
                search.see(path, content)
        except (BinaryChecksError, OSError):
            return frozenset()
        tried = search.conclude()
        return frozenset(path for path, module in modules.items() if module in tried)

    def read_loading_words(self) -> LoadingWords:
        """Return the imports of the package's sources, and whether the sources load libraries.

        Sources that cannot be read might load any library.
        """
        try:
            return read_words(self._read_sources())
        except (BinaryChecksError, OSError) as error:
            return LoadingWords(imports=frozenset(), loading=f"not read: {error}", everywhere=False)

    @cached_property
    def _sources(self) -> dict[Member, str]:
        """The package's code with its paths: Python, and the scripts next to its programs."""
        objects = {item.path for item in self.package.objects}
        files = (
            member
            for member in self.package.members
            if not (member.is_directory or member.target or member.path in objects)
        )
        shown = ((member, self.package.layout.shorten(member.path)) for member in files)
        return {
            member: path
            for member, path in shown
            if is_source(path) or _is_script(member.archive_name, member.size, member.mode)
        }

    def _read_sources(self) -> Iterator[tuple[str, bytes]]:
        """Yield the sources. Raises Unavailable if one cannot be read."""
        for member, content in self._contents.each(self._sources):
            path = self._sources[member]
            if isinstance(content, Unavailable):
                raise Unavailable(f"{path}: {content}")
            yield path, content


@gathers(OwnCode, wants=(CODE,))
def take_code(package: Package, contents: MemberContents) -> OwnCode:
    """Return the package's own code, which other facts search."""
    return OwnCode(package, contents)


@gathers(CodeNames)
def find_code_names(code: OwnCode) -> CodeNames:
    """Find the objects of the package that its own code names."""
    return code.names


@gathers(LowestPolicy)
def find_lowest_policy(package: Package, linkage: Linkage, target: TargetSystem) -> LowestPolicy:
    """Find the lowest correct tag for all ELF objects together."""
    libraries = (item for item in package.objects if isinstance(item, ElfFile))
    needs = [need for item in libraries for need in needed_of_system(item, linkage)]
    return LowestPolicy(policy=lowest_policy(needs, target.policies))


@gathers(ImportOpenings)
def find_import_openings(package: Package, code: OwnCode, linkage: Linkage) -> ImportOpenings:
    """Find objects that the code opens, if they need a driver's library or exist twice."""
    needs = (edge.needed for edge in (*linkage.edges, *linkage.given_edges))
    if not any(map(is_driver_library, needs)) and not find_copies(
        package.objects, DRIVER_LIBRARIES
    ):
        return ImportOpenings()
    return code.find_import_openings()
