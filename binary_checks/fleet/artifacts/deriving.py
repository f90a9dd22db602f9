"""Derive an artifact's record from its bytes, its name, and the values that its push states."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from binary_checks.documents.facts import Statement, WantedFacts, restore
from binary_checks.documents.json_values import DocumentError, read_json
from binary_checks.errors import (
    MISUSED,
    PROBLEMS,
    BrokenDataError,
    GatherError,
    PackageError,
    ProfileError,
    Unavailable,
)
from binary_checks.fleet.artifacts.artifact import (
    KINDS,
    Artifact,
    ArtifactRefusedError,
    LinkedAs,
)
from binary_checks.fleet.artifacts.axis_claims import (
    BY_HAND,
    AxisValue,
    StatedValues,
    derive_axes,
    require_agreement,
)
from binary_checks.fleet.artifacts.kept_artifacts import HashedFile, hash_content
from binary_checks.fleet.artifacts.limited_process import LimitedEnd, run_limited
from binary_checks.knowledge.configurations import same_version
from binary_checks.model import (
    BinaryConfiguration,
    CondaPackage,
    CppArchive,
    Distribution,
    LinkedLibraries,
    Package,
    ReleaseRequest,
    SingleObject,
    Tree,
    UnknownSymbols,
)
from binary_checks.safe_text import cut, one_line
from binary_checks.trees import open_part, open_tree
from binary_checks.trees.file_bytes import open_bytes

_LIBRARY, _LIBTORCH = "library", "libtorch"


def derive(
    file: HashedFile,
    statement: Statement,
    texts: PackageTexts,
    origin: Mapping[str, AxisValue],
    stated: StatedValues,
) -> Artifact:
    """Return a file's record; ``origin`` is what it was built from.

    Raises ArtifactRefusedError if sources contradict each other.
    """
    package = replace(statement.package, path=Path(file.path.name))
    configuration = statement.configuration or BinaryConfiguration()
    kind = _name_kind(package)
    _require_own_name(package, texts.record)
    linked = statement.linked_libraries or LinkedLibraries()
    axes = {**derive_axes(package, configuration, stated, linked), **origin}
    _require_kind(package, configuration, stated)
    if kind != _LIBTORCH and "libtorch" not in stated.by_hand:
        axes.pop("libtorch", None)
    project, version = _name_project(package, stated), _name_version(package, stated)
    evidence = {name: each.evidence for name, each in sorted(axes.items())}
    evidence["kind"] = f"the file is {package.noun}"
    for name, value in (("project", stated.project), ("version", stated.version)):
        if value:
            evidence[name] = BY_HAND
    metadata = texts.metadata
    header = package.header("Requires-Python") if isinstance(package, Distribution) else ""
    values: dict[str, Any] = {name: each.value for name, each in axes.items()}
    return Artifact(
        sha256=file.sha256,
        file_name=file.path.name,
        size=file.size,
        kind=kind,
        project=project,
        version=version,
        evidence={name: cut(one_line(each), 300) for name, each in evidence.items()},
        libraries=tuple(
            LinkedAs(
                library=each.name,
                how=each.linking.value,
                version=each.version,
                evidence=cut(one_line(each.evidence), 300),
            )
            for each in linked.libraries
        ),
        requires_python=header,
        metadata_sha256="" if metadata is None else hash_content(metadata),
        subdir=package.subdir if isinstance(package, CondaPackage) else "",
        record=texts.record,
        **values,
    )


def _name_kind(package: Package) -> str:
    if isinstance(package, CppArchive):
        named = package.name.lower().startswith(_LIBTORCH)
        return _LIBTORCH if named else _LIBRARY
    if isinstance(package, SingleObject):
        return _LIBRARY
    kind = type(package).__name__.removesuffix("Package").lower()
    if kind not in KINDS:
        raise ProfileError(f"{package.file_name}: {package.noun} cannot be pushed")
    return kind


def _require_kind(
    package: Package, configuration: BinaryConfiguration, stated: StatedValues
) -> None:
    """Raise ArtifactRefusedError if sources disagree on the package's kind or version."""
    for aspect in ("kind", "version"):
        claims = list(getattr(configuration, aspect).claims)
        if len(stated.file_names) == 1:  # a job may push files that several of its steps built
            claims += [each.claim for each in stated.variables if each.aspect == aspect]
        require_agreement(package.file_name, aspect, aspect, claims)


def _require_own_name(package: Package, record: Mapping[str, Any]) -> None:
    """Compare the file's name with the package's own metadata: the file may have been renamed."""
    if isinstance(package, Distribution):
        inside = package.header("Name"), package.header("Version")
        alike = canonicalize_name(inside[0]) == canonicalize_name(package.name)
        where = "METADATA"
    elif isinstance(package, CondaPackage):
        inside = str(record.get("name", "")), str(record.get("version", ""))
        stem = package.file_name.removesuffix(".conda").removesuffix(".tar.bz2")
        alike = stem == "-".join((*inside, str(record.get("build", ""))))
        where = "index.json"
    else:
        return
    if not alike or not same_version(inside[1], package.version):
        raise ArtifactRefusedError(
            f"{package.file_name}: project: its file name contradicts {where}, which states "
            f"{' '.join(inside)}; do not rename packages"
        )


def _name_project(package: Package, stated: StatedValues) -> str:
    known, given = package.name, stated.project
    if isinstance(package, Distribution):
        known, given = canonicalize_name(known), canonicalize_name(given)
    if given and isinstance(package, (Distribution, CondaPackage)) and given != known:
        raise ArtifactRefusedError(
            f"{package.file_name}: project: the package says {known}, but --project says "
            f"{stated.project}"
        )
    if not (given or known):
        raise ProfileError(f"{package.file_name}: its project is unknown; give --project")
    return given or known


def _name_version(package: Package, stated: StatedValues) -> str:
    known, given = package.version, stated.version
    if known and given and not same_version(known, given):
        raise ArtifactRefusedError(
            f"{package.file_name}: version: the package says {known}, but --version says {given}"
        )
    return known or given


# Reading a file's facts with `binary-checks inspect`, in a process with limits, so that no file can
# make a push hang.

INSPECT_LIMIT = 1800.0
"""Seconds that reading one file may take."""
_FOR_LINKERS = (".a", ".lib")


@contextmanager
def inspect_file(
    path: Path, *, timeout: float = INSPECT_LIMIT
) -> Iterator[tuple[Statement, Path | None]]:
    """Yield a file's facts without the symbols of its objects, and their document.

    The document is deleted when the block ends. It is None if it describes an archive around the
    file. Raises PackageError for a file of an unknown kind, ProfileError for one that does not
    exist, and GatherError if limits or a signal ended the process.
    """
    with tempfile.TemporaryDirectory(prefix="artifact-") as folder:
        alone = path.suffix.lower() not in _FOR_LINKERS
        subject = path.absolute() if alone else _wrap(path, Path(folder))
        document = Path(folder) / "facts.json"
        _run(subject, path.name, document, timeout)
        keep = WantedFacts(record=False, keep_symbols=lambda _: UnknownSymbols("not asked for"))
        yield (
            restore(document, named=f"{path.name}: its facts", reading=keep),
            document if alone else None,
        )


def _wrap(path: Path, folder: Path) -> Path:
    """Put a library for linkers into a zip archive.

    `inspect` reads such libraries only in C++ archives. A symbolic link with another suffix would
    do as well, but not every system has symbolic links.
    """
    wrapped = folder / f"{path.stem}.zip"
    try:
        with zipfile.ZipFile(wrapped, "w") as archive:
            archive.writestr("include/library.h", "")
            archive.write(path, f"lib/{path.name}")
    except OSError as error:
        raise ProfileError(f"{path.name}: cannot be read: {error.strerror or error}") from None
    return wrapped


def _run(subject: Path, name: str, document: Path, timeout: float) -> None:
    """Run `inspect` and write its document. Raises the errors of `inspect_file`."""
    end = run_limited(("inspect", "--json", str(subject)), document, timeout, name)
    if end.status:
        raise _explain(name, end)


def _explain(name: str, end: LimitedEnd) -> Exception:
    if end.status < 0:
        return GatherError(f"{name}: inspect was ended by signal {-end.status}")
    message = end.complaint
    about = message if name in message else f"{name}: {message or 'could not be inspected'}"
    kind = {PROBLEMS: PackageError, MISUSED: ProfileError}.get(end.status, GatherError)
    return kind(cut(one_line(about)))


# Texts in a package that a store keeps: METADATA or index.json, and the commit it names.

LONGEST_TEXT = 16 << 20  # bytes of METADATA or index.json
_LONGEST_STATING = 1 << 20  # bytes of a file that states the commit
_MOST_STATING = 8
_INDEX = "info/index.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageTexts:
    """The texts of a package; empty if it has none."""

    metadata: bytes | None = None  # METADATA, unchanged
    record: Mapping[str, Any] = field(default_factory=dict)  # index.json
    commits: tuple[tuple[str, str], ...] = ()  # (member, the commit that it names)


def read_texts(path: Path, package: Package) -> PackageTexts:
    """Read the texts of a file that was inspected.

    Raises PackageError if one of them cannot be read, or has changed since.
    """
    if isinstance(package, CondaPackage):
        content = _read_members(path, package, {_INDEX: LONGEST_TEXT})[_INDEX]
        return PackageTexts(record=_read_record(path.name, content))
    stating = dict(islice(_find_stating(package), _MOST_STATING))
    wanted = dict.fromkeys(stating, _LONGEST_STATING)
    metadata = f"{package.dist_info}/METADATA" if isinstance(package, Distribution) else ""
    if metadata:
        wanted[metadata] = LONGEST_TEXT
    contents = _read_members(path, package, wanted)
    found = {
        name: re.search(pattern, contents[name].decode("utf-8", "replace"))
        for name, pattern in stating.items()
    }
    return PackageTexts(
        metadata=contents.get(metadata),
        commits=tuple((name, each[1]) for name, each in found.items() if each),
    )


def _find_stating(package: Package) -> Iterator[tuple[str, str]]:
    """Yield the members that may state the commit, with the patterns that find the commit."""
    for member in package.members:
        parts = member.archive_name.split("/")
        for glob, pattern in ReleaseRequest().commits.items():
            globs = glob.split("/")
            fits = len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))
            if fits and member.sha256 and 0 < member.size <= _LONGEST_STATING:
                yield member.archive_name, pattern


def _read_members(path: Path, package: Package, wanted: Mapping[str, int]) -> dict[str, bytes]:
    """Read members of at most so many bytes; of a ``.conda``, only its metadata are opened."""
    if not wanted:
        return {}
    # the last member of a name wins, as when an archive is unpacked
    known = {each.archive_name: each.sha256 for each in package.members}
    contents: dict[str, bytes] = {}
    with ExitStack() as files:
        try:
            tree: Tree = open_part(files.enter_context(open_bytes(path)), files)
        except Unavailable:  # all of it must be read
            tree = files.enter_context(closing(open_tree(path)))
        for entry in tree.entries():
            if entry.name in wanted:
                content = _join(tree.pieces(entry), wanted[entry.name])
                if hash_content(content) == known.get(entry.name):
                    contents[entry.name] = content
    for name in wanted:
        if name not in contents:
            raise PackageError(f"{path.name}: {name}: cannot be read, or has changed meanwhile")
    return contents


def _join(pieces: Iterator[bytes], most: int) -> bytes:
    """Return all pieces, or some of them if they are broken or too long."""
    content = bytearray()
    with suppress(BrokenDataError):
        for piece in pieces:
            content += piece
            if len(content) > most:
                break
    return bytes(content)


def _read_record(name: str, content: bytes) -> Mapping[str, Any]:
    try:
        record = read_json(content.decode("utf-8-sig"))
    except (DocumentError, UnicodeDecodeError) as error:
        raise PackageError(f"{name}: {_INDEX}: {error}") from None
    if not isinstance(record, dict):
        raise PackageError(f"{name}: {_INDEX}: not an object")
    return record
