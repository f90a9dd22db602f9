"""Choice of the wheel that pip would install, or a line that says why pip would install none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import (
    BuildTag,
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from binary_checks.errors import ProfileError
from binary_checks.indexes.simple_page import ListedFile

_FEW = 5  # versions, or platforms, that a message lists


@dataclass(frozen=True, kw_only=True)
class WheelRequest:
    """A requirement, and the Python for which it is resolved."""

    asked: str  # the requirement as the user wrote it
    project: str  # normalised name of the project
    specifier: SpecifierSet
    tags: Sequence[Tag]  # tags that the Python accepts, best first
    python: str  # version of the Python, "3.12.0"
    label: str  # label of the Python: "cp312 on win_amd64"
    prereleases: bool = False

    @cached_property
    def ranks(self) -> Mapping[Tag, int]:
        """The rank of each accepted tag."""
        return {tag: place for place, tag in reversed([*enumerate(self.tags)])}

    @property
    def is_pinned(self) -> bool:
        """Whether the requirement pins one version; it may then be a yanked version (PEP 592)."""
        exact = (each for each in self.specifier if each.operator in ("==", "==="))
        return any(each.operator == "===" or not each.version.endswith(".*") for each in exact)

    def allows_python(self, requirement: str | None) -> bool:
        """Return whether a Requires-Python allows the Python; like pip, ignore an invalid one."""
        try:
            return SpecifierSet(requirement or "").contains(self.python, prereleases=True)
        except (InvalidSpecifier, ValueError):
            return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A wheel of the project."""

    file: ListedFile
    version: Version
    build: BuildTag
    tags: frozenset[Tag]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """All files of a project, with names parsed once for all requirements."""

    files: tuple[ListedFile, ...]
    wheels: tuple[Candidate, ...]


def read_listing(files: Iterable[ListedFile], project: str) -> Listing:
    """Parse the names of files, and find the wheels of the project."""
    files = tuple(files)
    return Listing(
        files=files, wheels=tuple(filter(None, (_read(each, project) for each in files)))
    )


def choose(files: Iterable[ListedFile], request: WheelRequest, where: str) -> ListedFile:
    """Return the file that pip would install. Raises ProfileError if there is none."""
    return choose_listed(read_listing(files, request.project), request, where).file


def choose_listed(listing: Listing, request: WheelRequest, where: str) -> Candidate:
    """Return the wheel of a parsed listing that pip would install. Raises ProfileError."""
    fitting = [each for each in listing.wheels if _fits(each, request)]
    ranked = sorted(_filter(fitting, request), key=lambda each: _rank(each, request))
    taken_back = all(each.file.yanked is not None for each in ranked)
    for each in reversed(ranked):
        if each.file.yanked is None or (taken_back and request.is_pinned):
            return each
    raise ProfileError(f"{request.asked}: {_explain(listing, ranked, request)} (asked: {where})")


def _read(file: ListedFile, project: str) -> Candidate | None:
    try:
        name, version, build, tags = parse_wheel_filename(file.file_name)
    except (InvalidWheelFilename, InvalidVersion, ValueError):
        return None
    if name != project:
        return None
    return Candidate(file=file, version=version, build=build, tags=tags)


def _fits(candidate: Candidate, request: WheelRequest) -> bool:
    fits = any(tag in request.ranks for tag in candidate.tags)
    return fits and request.allows_python(candidate.file.requires_python)


def _filter(candidates: Sequence[Candidate], request: WheelRequest) -> list[Candidate]:
    """Return candidates of the requested versions; the specifier decides about pre-releases."""
    versions = {str(each.version) for each in candidates}
    kept = {*request.specifier.filter(versions, prereleases=True if request.prereleases else None)}
    return [each for each in candidates if str(each.version) in kept]


def _rank(
    candidate: Candidate, request: WheelRequest
) -> tuple[bool, Version, int, tuple[int, str] | tuple[()]]:
    best = min(request.ranks[tag] for tag in candidate.tags if tag in request.ranks)
    return candidate.file.yanked is None, candidate.version, -best, candidate.build


def _explain(listing: Listing, ranked: Sequence[Candidate], request: WheelRequest) -> str:
    if ranked:
        reasons = {each.file.yanked or "" for each in ranked} - {""}
        why = f" ({sorted(reasons)[0]:.200})" if reasons else ""
        return f"the matching version was yanked{why}; name it with == to judge it anyway"
    versions = _filter(listing.wheels, request)
    sources = [*_list_sources(listing.files, request)]
    if versions:
        best = max(each.version for each in versions)
        others = _describe_available(versions, best, request)
        built = f"; pip would build {sources[-1]}" if sources else ""
        return f"no wheel for {request.label}; {others}{built}"
    if sources:
        return (
            f"there is only a source distribution ({sources[-1]}): build a wheel from it, "
            f"pip wheel --no-deps '{request.asked}'"
        )
    known = sorted({each.version for each in listing.wheels}, reverse=True)
    if not known:
        return "no such project"
    shown = ", ".join(map(str, known[:_FEW])) + ", …" * (len(known) > _FEW)
    return f"no such version; the available ones are {shown}"


def _describe_available(versions: Sequence[Candidate], best: Version, request: WheelRequest) -> str:
    """Describe the systems or Pythons for which the newest version has wheels."""
    newest = [each for each in versions if each.version == best]
    right = [each for each in newest if any(tag in request.ranks for tag in each.tags)]
    if right:
        return f"{best} requires Python {right[0].file.requires_python}"
    labels = sorted({_label(each) for each in newest})
    return f"{best} has {', '.join(labels[:_FEW])}" + ", …" * (len(labels) > _FEW)


def _label(candidate: Candidate) -> str:
    return "-".join(candidate.file.file_name.removesuffix(".whl").split("-")[-3:])


def _list_sources(files: Sequence[ListedFile], request: WheelRequest) -> Iterator[str]:
    for file in files:
        try:
            name, version = parse_sdist_filename(file.file_name)
        except (InvalidSdistFilename, InvalidVersion, ValueError):
            continue
        if canonicalize_name(name) == request.project and request.specifier.contains(
            version, prereleases=True
        ):
            yield file.file_name
