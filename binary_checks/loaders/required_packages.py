"""Given packages: matching them with requirements, and finding what they provide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, islice, product
from typing import TYPE_CHECKING, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import Version

from binary_checks.knowledge.library_names import (
    RequiredNames,
    fills_prefix,
    find_known_shippers,
    find_left_out,
    find_opener,
    find_qt_sibling,
    find_shippers,
    find_stem,
    first_word,
    is_grafted_name,
    is_named_like_nvidia,
    may_be_required,
    may_have,
    share_first_word,
)
from binary_checks.knowledge.loading import is_for_others
from binary_checks.knowledge.python_libraries import ModuleFiles, is_for_java
from binary_checks.loaders.file_layout import relocate
from binary_checks.model import (
    ANY_SYSTEM,
    Directories,
    Edge,
    FamilyOpener,
    GivenFamilies,
    Linkage,
    MisfitVersion,
    Package,
    Rule,
    TargetSystem,
    UnexploredSymbols,
    UnresolvedSymbol,
    applicable,
    directories,
    is_extension,
    leaves_prefix,
    names_required,
    namespace_of,
)
from binary_checks.python_code.named_files import LoadingWords

# Match given packages with requirements.

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_MOST_CHOICES = 64  # combinations of versions, if several are given for several names


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchedPackages:
    """The given packages that are installed next to a package, and missing requirements."""

    packages: tuple[Package, ...]
    missing: tuple[str, ...]  # names of required distributions that are not given
    # sentences on packages given in a version that the requirements exclude
    refused: tuple[str, ...]


def match_requirements(
    requirements: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> MatchedPackages:
    """Match given packages with the requirements that apply on the target, without extras.

    An installer never installs a version that the requirements exclude: a package in such a version
    is left out, and reported unless another version of it fits. Requirements of given packages
    count, too: torch gets libraries of CUDA through the requirements of cuda-toolkit.
    """
    requirements, others = tuple(requirements), tuple(others)
    if not others:
        missing = names_required(requirements, target)
        return MatchedPackages(packages=(), missing=tuple(sorted(missing)), refused=())
    wanted = _by_name(applicable(requirements, target))
    packages: list[Package] = []
    refused: dict[str, list[str]] = {}
    for package in others:
        name = canonicalize_name(package.name)
        against = [item for item in wanted.get(name, ()) if not fits(package.version, item)]
        if against:
            specifiers = " and ".join(f"{item.name}{item.specifier}" for item in against)
            words = f"{package.name} {package.version}, where {specifiers} is required"
            refused.setdefault(name, []).append(words)
        else:
            packages.append(package)
    given: dict[str, Package] = {canonicalize_name(item.name): item for item in packages}
    required = find_required(requirements, given, target)
    return MatchedPackages(
        packages=tuple(packages),
        missing=tuple(sorted(required.keys() - given.keys())),
        refused=tuple(words for name in sorted(refused.keys() - given) for words in refused[name]),
    )


def find_required(
    requirements: Iterable[str], given: Mapping[str, Package], target: TargetSystem
) -> dict[str, list[Requirement]]:
    """Return all requirements: direct ones, and requirements of given packages.

    Keys are normalised names. Extras are followed if the packages with the extras are given.
    """
    wanted: dict[str, list[Requirement]] = {}
    for _, item in _follow(requirements, given, target):
        items = wanted.setdefault(canonicalize_name(item.name), [])
        if item not in items:
            items.append(item)
    return wanted


def find_misfits(
    requirements: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> tuple[MisfitVersion, ...]:
    """Return packages given in a version that a direct or indirect requirement excludes.

    If several versions of a package are given, an installer takes one that fits, if necessary an
    older one. If no combination of versions fits, the newest versions are reported.
    """
    requirements = tuple(requirements)
    candidates: dict[str, dict[str, Package]] = {}
    for each in filter(partial(_may_be_for, target), others):
        candidates.setdefault(canonicalize_name(each.name), {})[each.version] = each
    choices = {
        name: sorted(by_version.values(), key=_newest_last, reverse=True)
        for name, by_version in candidates.items()
    }
    newest = {name: packages[0] for name, packages in choices.items()}
    # Few packages are given in several versions, and only required packages matter.
    several = [
        name
        for name in find_required(requirements, newest, target)
        if len(choices.get(name, ())) > 1
    ]
    found: tuple[MisfitVersion, ...] | None = None
    for chosen in islice(product(*(choices[name] for name in several)), _MOST_CHOICES):
        given = {**newest, **dict(zip(several, chosen, strict=True))}
        misfits = tuple(_hold(_follow(requirements, given, target), given))
        if not misfits:
            return ()
        found = misfits if found is None or len(misfits) < len(found) else found
    return found or ()


def find_given_families(
    package: Package, others: Iterable[Package], requirements: Iterable[str], target: TargetSystem
) -> GivenFamilies:
    """Return the libraries of other packages that open further libraries of their own family."""
    neighbours = (
        relocate(each, package.layout)
        for each in match_requirements(requirements, others, target).packages
    )
    return GivenFamilies(
        openers=tuple(
            FamilyOpener(label=f"wheel:{each.name}:{item.path}", item=item)
            for each in neighbours
            for item in each.objects
            if find_opener(item.name) or find_opener(item.file_name)
        )
    )


def _hold(
    asked: Iterable[tuple[Package | None, Requirement]], given: Mapping[str, Package]
) -> Iterator[MisfitVersion]:
    for by, item in asked:
        package = given.get(canonicalize_name(item.name))
        if package is not None and not fits(package.version, item):
            yield MisfitVersion(
                name=package.name,
                version=package.version,
                requirement=f"{item.name}{item.specifier}",
                by=f"{by.name} {by.version}" if by else "",
            )


def _may_be_for(target: TargetSystem, package: Package) -> bool:
    """Return whether an installer may install the package on the target.

    A given folder may contain wheels for other systems.
    """
    systems = package.claims.systems
    return not systems or any(
        each.system in ("", ANY_SYSTEM, target.system)
        and (not each.architectures or not set(each.architectures).isdisjoint(target.architectures))
        for each in systems
    )


def _newest_last(package: Package) -> tuple[bool, Version]:
    try:
        return True, Version(package.version)
    except ValueError:
        return False, Version("0")


def _follow(
    requirements: Iterable[str], given: Mapping[str, Package], target: TargetSystem
) -> Iterator[tuple[Package | None, Requirement]]:
    """Yield each applicable requirement with the package stating it (None: the judged package)."""
    direct = tuple(applicable(requirements, target))
    yield from ((None, item) for item in direct)
    asked: dict[str, frozenset[str]] = {}
    for item in direct:
        own = canonicalize_name(item.name)
        asked[own] = asked.get(own, frozenset()).union(item.extras)
    queue = list(asked)
    seen: set[tuple[str, Requirement]] = set()
    for name in queue:
        package = given.get(name)
        if package is None:
            continue
        for item in applicable(package.claims.requirements, target, sorted(asked[name])):
            other, extras = canonicalize_name(item.name), frozenset(item.extras)
            if (name, item) not in seen:
                seen.add((name, item))
                yield package, item
            if other not in asked or not extras <= asked[other]:
                asked[other] = extras | asked.get(other, frozenset())
                queue.append(other)


def _by_name(requirements: Iterable[Requirement]) -> dict[str, list[Requirement]]:
    found: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


def fits(version: str, requirement: Requirement) -> bool:
    """Return whether a version meets a requirement; a pre-release may, because the user gave it."""
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except ValueError:
        return True  # an invalid version cannot be compared


# Required distributions that were not given, but may provide a library that is not found.

_GRAFTED_FOLDER = re.compile(r"(?:\A|/)(?P<owner>[^/]*)\.(?:libs|dylibs)(?:/|\Z)")
_CXX = "libstdc++.so.6"
_NOBODYS = frozenset({"bin", "lib", "lib64"})
"""Folders of site-packages that are not importable packages, and belong to no distribution. open3d,
which requires dash and flask, searches for libEGL.so.1 in site-packages/lib.
"""
_NOT_HERE = "not given, and no system promises it: give the package or the folder that contains it"
_HOSTS = "the program that loads the file may define them"
_OF_JAVA = frozenset({"JNI_CreateJavaVM", "JNI_GetCreatedJavaVMs", "JNI_GetDefaultJavaVMInitArgs"})
"""The functions of libjvm ("The Invocation API" in the specification of JNI)."""
# Beginnings of names that are looked up only as paths, not among loaded libraries.
_BY_ITS_PLACE_ALONE = ("@loader_path/", "@executable_path/")


def find_providers(
    package: Package,
    edges: tuple[Edge, ...],
    requirements: tuple[str, ...],
    missing: tuple[str, ...],
    target: TargetSystem,
) -> tuple[Edge, ...]:
    """Return the edges; add to unresolved ones the missing requirements that may provide them."""
    if all(map(_is_settled, edges)):
        return edges
    if package.claims.partial:
        return tuple(map(_excuse_missing, edges))
    if not requirements:
        return tuple(map(partial(_add_qt_sibling, canonicalize_name(package.name)), edges))
    if not missing:
        return edges
    providers = _Providers(package, requirements, missing, target, edges)
    return tuple(
        edge if _is_settled(edge) else replace(edge, may_come_with=providers.of(edge))
        for edge in edges
    )


def find_indirect_providers(
    edges: tuple[Edge, ...], given: Mapping[str, Package], target: TargetSystem
) -> tuple[Edge, ...]:
    """Return the edges; add requirements of given packages that may provide libraries of CUDA.

    A given package counts only if objects load something from it although it is not required:
    torchaudio and fbgemm-gpu expect their users to have torch, which requires CUDA's wheels.
    """
    if all(map(_is_settled, edges)):
        return edges
    # Each tuple only once, since many edges share it.
    shared = {id(edge.elsewhere): edge.elsewhere for edge in edges}.values()
    ends = chain((edge.resolved for edge in edges), *shared)
    labels = {end.split(":")[1] for end in ends if end and end.startswith("wheel:")}
    users = (package for name, package in given.items() if package.name in labels)
    texts = tuple(text for package in users for text in package.claims.requirements)
    required = find_required(texts, given, target).keys() - given.keys() if texts else ()
    missing = RequiredNames(sorted(required))
    return tuple(
        edge
        if _is_settled(edge) or edge.elsewhere or edge.may_come_with
        else replace(edge, may_come_with=find_known_shippers(edge.needed, missing))
        for edge in edges
    )


def _is_settled(edge: Edge) -> bool:
    return edge.resolved is not None


def _excuse_missing(edge: Edge) -> Edge:
    """Mark an unresolved edge as unknown, for a package that is a single file or a build folder.

    It is unknown what users install together with such a package.
    """
    return edge if _is_settled(edge) or edge.elsewhere else replace(edge, unknown=_NOT_HERE)


def _add_qt_sibling(name: str, edge: Edge) -> Edge:
    sibling = "" if _is_settled(edge) else find_qt_sibling(name, edge.needed)
    return replace(edge, may_come_with=(sibling,)) if sibling else edge


def separate_provided_symbols(
    package: Package,
    unresolved: tuple[UnresolvedSymbol, ...],
    missing: Iterable[str],
    target: TargetSystem,
) -> tuple[tuple[UnresolvedSymbol, ...], tuple[UnexploredSymbols, ...]]:
    """Split symbols into undefined ones and those that other objects of the process may define.

    libonedal.so.4 of daal, for the modules of scikit-learn-intelex, needs symbols of libtbb.so.12
    (of tbb, which daal requires) and of libstdc++.so.6, but lists neither; the modules that load it
    need both libraries. A module of the judged package itself must list the libraries it needs.

    pemja's pemja_core needs JNI_GetCreatedJavaVMs, which the Java virtual machine loading it has.
    """
    required = frozenset(missing)
    modules = {item.path for item in package.objects if is_extension(item)} if unresolved else ()
    asks_java = any(item.name in _OF_JAVA for item in unresolved)
    of_java = {each.path for each in package.objects if is_for_java(each)} if asks_java else ()
    cxx = target.library_data.get(_CXX)
    of_cxx = cxx.symbols if cxx else {}
    theirs: dict[tuple[str, str], set[str]] = {}
    for item in unresolved:
        known = item.elsewhere or item.provider or item.other_abi or item.root in modules
        if package.claims.partial and not known:
            theirs.setdefault((item.path, _HOSTS), set()).add(item.name)
            continue
        if not known and item.name in _OF_JAVA and item.path in of_java:
            reason = "the Java virtual machine that loads the file has them"
            theirs.setdefault((item.path, reason), set()).add(item.name)
            continue
        space = "" if known else namespace_of(item.name)
        if space in required:
            reason = f"the required package {space} may define these symbols of its namespace"
            theirs.setdefault((item.path, reason), set()).add(item.name)
        elif not known and item.name in of_cxx and is_for_others(item.path, package):
            reason = f"{_CXX} defines them, but the file does not name this library"
            theirs.setdefault((item.path, reason), set()).add(item.name)
    gone = {(path, name) for (path, _), names in theirs.items() for name in names}
    return tuple(item for item in unresolved if (item.path, item.name) not in gone), tuple(
        UnexploredSymbols(path=path, count=len(names), reason=reason)
        for (path, reason), names in theirs.items()
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Searched:
    """Facts about the folders in which a library was searched for."""

    folders: tuple[str, ...]
    repaired: bool  # whether a repair tool made one of the folders for this package
    repaired_missing: bool  # whether that folder is missing
    folder_missing: bool  # whether a folder that belongs to the package is missing
    words: frozenset[str]  # first words of the names of the package's own libraries in the folders


class _Question(NamedTuple):
    """The facts on which the providers of a library depend in addition to its name."""

    searched: _Searched
    prefix: tuple[str, ...]  # the environment's ``lib``, if the loader searches it, too
    only_theirs: bool  # count only requirements that a folder is named after
    user: tuple[str, str] | None  # the object, if its other needs count
    of_own: bool  # whether the package has libraries with similar names
    nvidias: bool  # whether the library has a name like libraries in NVIDIA's wheels


class _Providers:
    """Finds requirements that may provide a library, by their names and by their folders."""

    def __init__(
        self,
        package: Package,
        requirements: tuple[str, ...],
        missing: tuple[str, ...],
        target: TargetSystem,
        edges: tuple[Edge, ...],
    ) -> None:
        self._package, self._missing = package, RequiredNames(missing)
        self._requirements, self._target = requirements, target
        self._name = canonicalize_name(package.name)
        self._inside = package.layout.inside
        open_ones = [edge for edge in edges if edge.resolved is None]
        self._named: dict[tuple[str, str], dict[str, None]] = {}
        for edge in open_ones:
            named = self._named.setdefault((edge.path, edge.architecture), {})
            named.update(dict.fromkeys(find_shippers(edge.needed, self._missing)))
        self._searched: dict[tuple[str, ...], _Searched] = {}
        self._found: dict[_Question, tuple[str, ...]] = {}

    def of(self, edge: Edge) -> tuple[str, ...]:
        """Return the requirements that may provide the library that an edge needs.

        The library's name, or the folders searched, identify them.
        """
        if find_left_out(edge.needed, self._spelled):
            return ()
        by_place = edge.needed.startswith(_BY_ITS_PLACE_ALONE)
        known = () if by_place else find_known_shippers(edge.needed, self._missing)
        if known:
            return known
        searched = self._look_at(edge.searched)
        grafted = is_grafted_name(edge.needed)
        of_own = first_word(edge.needed) in searched.words
        if searched.repaired and (grafted or searched.repaired_missing):
            return ()
        # openvino_tokenizers has libraries with similar names, and needs libopenvino.so.2 of
        # openvino.
        whole = of_own and bool(self._missing.named_as(find_stem(edge.needed)))
        by_name = not (grafted or by_place or searched.folder_missing) and (whole or not of_own)
        if by_name and (named := find_shippers(edge.needed, self._missing)):
            return named
        if not may_be_required(edge.needed):
            return ()
        question = _Question(
            searched=searched,
            prefix=self._prefix_of(edge),
            only_theirs=grafted,
            user=(edge.path, edge.architecture) if by_name else None,
            of_own=of_own,
            nvidias=is_named_like_nvidia(edge.needed),
        )
        if question not in self._found:
            self._found[question] = tuple(self._find(edge.needed, question))
        return self._found[question]

    def _find(self, needed: str, asked: _Question) -> Iterator[str]:
        """Yield requirements that may install into a folder searched, sorted by name."""
        found: dict[str, None] = {}
        for directory in dict.fromkeys((*asked.searched.folders, *asked.prefix)):
            found.update(dict.fromkeys(self._fillers(directory, only_theirs=asked.only_theirs)))
        if asked.user:
            # An object that needs libcasadi.so.3.7 of casadi may also get libipopt.so.3 from
            # casadi.
            found.update(self._named.get(asked.user, {}))
        for each in sorted(found):
            if may_have(each, needed) and (not asked.of_own or share_first_word(each, self._name)):
                yield each

    def _look_at(self, folders: tuple[str, ...]) -> _Searched:
        """Return the facts about these folders."""
        if folders not in self._searched:
            repaired = [each for each in folders if self._is_own_graft(each)]
            words = frozenset[str]().union(*(self._words.get(each, ()) for each in folders))
            self._searched[folders] = _Searched(
                folders=folders,
                repaired=bool(repaired),
                repaired_missing=any(map(self._is_missing_folder, repaired)),
                folder_missing=any(map(self._is_missing_folder, folders)),
                words=words - {""},
            )
        return self._searched[folders]

    def _fillers(self, directory: str, *, only_theirs: bool) -> Iterable[str]:
        """Return the requirements that may put files into a directory.

        Only siblings put files into a folder of this package. A sibling has a similar name, and is
        required in exactly the version of this package (PySide6-Addons). If this package itself has
        no such folder, either property is enough (PyQt6-Qt6 in PyQt6/Qt6, mlx-metal in mlx/lib).
        openvino-telemetry has no files in openvino/libs, and shiboken6 none in PySide6/Qt/lib. Only
        the package that a repair tool's folder is named after puts files into that folder.
        """
        inside, missing = self._inside(directory), self._missing
        grafted = _GRAFTED_FOLDER.search(directory)
        if leaves_prefix(directory):
            return ()
        if inside is None and not self._package.layout.climbs:
            return missing.names  # in a conda environment all packages share one ``lib``
        if grafted:
            owner = canonicalize_name(grafted["owner"])
            return [each for each in missing if each == owner]
        if not inside or self._is_own(inside):
            siblings = [each for each in missing if self._is_sibling(each, directory)]
            if inside is None:
                siblings += filter(fills_prefix, missing)
            return () if only_theirs else siblings
        top = canonicalize_name(inside.partition("/")[0])
        if top in _NOBODYS:
            return [each for each in missing if share_first_word(each, self._name)]
        theirs = [each for each in missing if each == top or share_first_word(each, top)]
        return theirs if theirs or only_theirs else missing.names

    def _prefix_of(self, edge: Edge) -> tuple[str, ...]:
        """Return the environment's ``lib`` if the object lies there, else ().

        The object's loader searches that folder, too. libsycl.so of intel-sycl-rt has no search
        path, and needs libimf.so of intel-cmplr-lib-rt in the same folder.
        """
        directory = edge.path.rpartition("/")[0]
        outside = self._package.layout.site_packages and self._inside(directory) is None
        return (directory,) if outside and not edge.searched else ()

    def _is_sibling(self, requirement: str, directory: str) -> bool:
        alike, pinned = share_first_word(requirement, self._name), requirement in self._pinned
        return (alike and pinned) or ((alike or pinned) and directory not in self._directories)

    @cached_property
    def _spelled(self) -> frozenset[str]:
        """The requirements with their extras, ``[?]`` for those that only given packages have."""
        direct: list[tuple[str, str]] = [
            (canonicalize_name(each.name), ",".join(sorted(each.extras)))
            for each in applicable(self._requirements, self._target)
        ]
        known = {name for name, _ in direct}
        direct += [(name, "?") for name in self._missing if name not in known]
        return frozenset(f"{name}[{extras}]".removesuffix("[]") for name, extras in direct)

    @cached_property
    def _pinned(self) -> frozenset[str]:
        """Names of requirements that are pinned to the package's own version."""
        version = self._package.version.partition("+")[0]
        return frozenset(
            canonicalize_name(each.name)
            for each in applicable(self._requirements, self._target)
            if any(
                one.operator == "==" and one.version.partition("+")[0] == version
                for one in each.specifier
            )
        )

    def _is_own(self, inside: str) -> bool:
        """Return whether a path relative to site-packages lies in a folder of this package."""
        top = inside.partition("/")[0]
        return top in self._own_tops or canonicalize_name(top) == self._name

    @cached_property
    def _own_tops(self) -> frozenset[str]:
        """The importable folders of this package, without shared namespaces."""
        items = (item for group in (self._package.members, self._package.objects) for item in group)
        paths = filter(None, (self._inside(item.path) for item in items))
        beginnings = (path.split("/") for path in paths if path.count("/") == 1)
        return frozenset(top for top, file in beginnings if file.startswith("__init__."))

    def _is_own_graft(self, directory: str) -> bool:
        """Return whether a repair tool made the folder for libraries of this package.

        pennylane-lightning also searches for its libgomp-870cb1d0.so.1 in scipy_openblas32/lib.
        """
        found = _GRAFTED_FOLDER.search(directory)
        inside = self._inside(directory) or ""
        return found is not None and (
            canonicalize_name(found["owner"]) == self._name or self._is_own(inside)
        )

    def _is_missing_folder(self, directory: str) -> bool:
        """Return whether the folder belongs to this package, but is missing.

        ortools requires absl-py, and needs libabsl_base.so in its own folder ortools/.libs.
        """
        inside = self._inside(directory)
        if not inside or directory in self._directories:
            return False
        grafted = _GRAFTED_FOLDER.search(inside)
        owner = grafted and canonicalize_name(grafted["owner"])
        return self._is_own(inside) or owner == self._name

    @cached_property
    def _directories(self) -> Directories:
        return directories(self._package)

    @cached_property
    def _words(self) -> Mapping[str, frozenset[str]]:
        """First words of the names of the package's own libraries, by directory."""
        words: dict[str, set[str]] = {}
        for item in self._package.objects:
            words.setdefault(item.directory, set()).add(first_word(item.file_name))
        return {directory: frozenset(each) for directory, each in words.items()}


# Libraries that Python has loaded before an object, judging by the package's imports.
#
# The code is not followed. A library that no search path finds, but that another distribution
# contains, counts as loaded if the package's sources import that distribution, or a distribution
# that requires it. If the sources contain a word for loading libraries, other libraries found
# elsewhere may be loaded: their symbols are looked up, and the need itself stays unresolved.


def is_in_doubt(linkage: Linkage) -> bool:
    """Return whether a library or symbol can be found only if another library was loaded first."""
    return any(map(_list_doubtful, linkage.edges)) or bool(linkage.unresolved)


class LoadedBefore(NamedTuple):
    """Libraries that Python has loaded before objects of a package, by label."""

    loads: Mapping[str, tuple[str, ...]]  # all these libraries, by root
    doubtful: frozenset[str]  # libraries that only the package's own code may load


def find_loaded_before(
    linkage: Linkage, words: LoadingWords, others: Iterable[Package], target: TargetSystem
) -> LoadedBefore:
    """Return the libraries that imports, or perhaps the package's code, load before each root.

    Libraries that a repair tool added to the package are left out, since only the system's loader
    is meant to load them.
    """
    imported = _find_imported(words.imports, others, target)
    chosen = _Choice(imported, frozenset(linkage.orphans))
    needs: dict[str, list[str]] = {}
    for edge in linkage.edges:
        label = chosen.choose(_list_doubtful(edge), by_code=_may_load(edge, words))
        if label:
            needs.setdefault(edge.path, []).append(label)
    loads = {
        root: tuple(dict.fromkeys(label for path in objects for label in needs.get(path, ())))
        for root, objects in linkage.closures
    }
    return LoadedBefore(
        {root: each for root, each in loads.items() if each}, frozenset(chosen.doubtful)
    )


class _Choice:
    """Chooses one of several files of a library; thousands of needs may have the same choice."""

    def __init__(self, imported: frozenset[str], orphans: frozenset[str]) -> None:
        self._imported, self._orphans = imported, orphans
        self._known: dict[tuple[tuple[str, ...], bool], str] = {}
        self.doubtful = set[str]()  # labels of libraries that only the package's own code may load

    def choose(self, labels: tuple[str, ...], *, by_code: bool) -> str:
        """Return the first label that is loaded, or that the package's code may load; else ""."""
        key = labels, by_code
        if key not in self._known:
            self._known[key] = self._find(labels, by_code=by_code)
        return self._known[key]

    def _find(self, labels: tuple[str, ...], *, by_code: bool) -> str:
        certain = dict.fromkeys(filter(self._is_imported, labels))
        if not by_code:
            return next(iter(certain), "")
        may = [each for each in labels if each not in self._orphans or each in certain]
        self.doubtful.update(each for each in may if each not in certain)
        return may[0] if may else ""

    def _is_imported(self, label: str) -> bool:
        _, _, rest = label.partition(":")
        return bool(rest) and canonicalize_name(rest.partition(":")[0]) in self._imported


def _may_load(edge: Edge, words: LoadingWords) -> bool:
    """Return whether the package's own code may load a library that nothing else provides."""
    known = edge.may_come_with or edge.unknown
    return edge.resolved is None and not known and bool(words.loading)


def leave_open(linkage: Linkage, doubtful: frozenset[str]) -> Linkage:
    """Return the linkage; mark libraries that only the package's own code may load as not found."""
    return replace(linkage, edges=tuple(_leave_open(edge, doubtful) for edge in linkage.edges))


def _leave_open(edge: Edge, doubtful: frozenset[str]) -> Edge:
    label = edge.resolved or ""
    if edge.rule is not Rule.LOADED_FIRST or label not in doubtful or edge.shadowed is not None:
        return edge
    return replace(edge, resolved=None, rule=Rule.MISSING, elsewhere=(label,))


def _list_doubtful(edge: Edge) -> tuple[str, ...]:
    """Return the files of a library that is found only if it was loaded before."""
    if edge.delayed:
        return ()
    if edge.resolved is None:
        return edge.elsewhere
    by_luck = edge.rule is Rule.LOADED and edge.shadowed is None
    return (edge.resolved,) if by_luck else ()


def _find_imported(
    imports: Iterable[str], others: Iterable[Package], target: TargetSystem
) -> frozenset[str]:
    """Return the imported distributions, and all distributions that these require."""
    given: Mapping[str, Package] = {canonicalize_name(each.name): each for each in others}
    names = frozenset(imports)
    tops = {name.partition(".")[0] for name in names}
    direct = {
        name
        for name, package in given.items()
        if _has_imported(package.derive(ModuleFiles), names, tops)
    }
    texts = tuple(text for name in direct for text in given[name].claims.requirements)
    return frozenset(direct.union(find_required(texts, given, target)))


def _has_imported(files: ModuleFiles, names: frozenset[str], tops: set[str]) -> bool:
    """Return whether a module of a package is imported; shared namespace folders do not count."""
    if tops.isdisjoint(files.roots):
        return False
    return any(
        name in files.sources or name in files.extensions
        for name in names
        if name.partition(".")[0] in files.roots
    )
