"""Reads of a published file what is said of it and what ranges show, before any download."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from packaging.tags import Tag

from binary_checks.declaring import gathers
from binary_checks.errors import (
    GatherError,
    NotApplicable,
    PackageError,
    RemoteChanged,
    Unavailable,
)
from binary_checks.model.packages import Package, Wheel
from binary_checks.model.protocols import ObjectReader, Remote, Source
from binary_checks.model.published import Publication, PublishedFile, PublishedWheel
from binary_checks.objects.first_bytes import read_first_bytes
from binary_checks.packages import outline_of
from binary_checks.packages.wheel import parse_file_name
from binary_checks.packages.wheel_texts import read_headers
from binary_checks.trees import open_part
from binary_checks.trees.ranged_bytes import RangedBytes

_CONDA = (".conda", ".tar.bz2")  # name-version-build
_FACTS: dict[type[Package], Callable[..., PublishedFile]] = {Wheel: PublishedWheel}
"""The kinds of packages of which more is known than of any."""


def demand_remote(source: Source) -> Remote:
    """The file where it is published. Raises NotApplicable for one that is here."""
    remote = source.remote()
    if remote is None:
        raise NotApplicable("it is a file of this machine, not a published one")
    return remote


@gathers(Publication)
def find_publication(source: Source) -> Publication:
    """Read what is stated of a published file. Raises NotApplicable for one that is here."""
    return read_publication(demand_remote(source))


def read_publication(remote: Remote) -> Publication:
    """Read what the index states of the file, and its name. Raises GatherError."""
    name, version, tags = _read_name(remote.file_name)
    metadata = remote.core_metadata()
    return Publication(
        file_name=remote.file_name,
        name=name,
        version=version,
        tags=tags,
        provenance=remote.provenance,
        metadata=None if metadata is None else read_headers(metadata)[0],
    )


def _read_name(file_name: str) -> tuple[str, str, tuple[Tag, ...]]:
    """What the name of a wheel or a conda package says; nothing where it is neither."""
    if file_name.endswith(_CONDA):
        stem = next(file_name.removesuffix(end) for end in _CONDA if file_name.endswith(end))
        name, version, _ = [*stem.rsplit("-", 2), "", ""][:3]
        return name, version, ()
    try:
        name, version, _, tags = parse_file_name(file_name)
    except PackageError:
        return "", "", ()
    return name, version, tags


@gathers(PublishedFile)
def find_published(source: Source, reader: ObjectReader) -> PublishedFile:
    """Read ranges of a published file. Raises NotApplicable for one that is here."""
    return read_published(demand_remote(source), reader)


def read_published(remote: Remote, reader: ObjectReader) -> PublishedFile:
    """Read it by ranges; once more from the start where it changed meanwhile.

    Raises Unavailable where the server sends no ranges, PackageError for what is no package, and
    GatherError where the network broke or the file changed again.
    """
    try:
        return _read(remote, reader)
    except RemoteChanged:
        pass
    except Unavailable as error:
        raise Unavailable(f"before the download: {error}") from None
    try:
        return _read(remote, reader, again=True)
    except RemoteChanged:
        raise GatherError(f"{remote.file_name}: it changed twice while it was read") from None


def _read(remote: Remote, reader: ObjectReader, *, again: bool = False) -> PublishedFile:
    with ExitStack() as files:
        file = remote.open()
        files.callback(file.close)
        ranged = RangedBytes(remote.file_name, file)
        package: Package = outline_of(open_part(ranged, files, read_first_bytes), reader)
        transfer = ranged.transfer
    return _FACTS.get(type(package), PublishedFile)(
        package=package,
        requests=transfer.requests,
        transferred=transfer.size,
        began_anew=again,
    )
