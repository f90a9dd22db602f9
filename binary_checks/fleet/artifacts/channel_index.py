"""Update a channel's index in its store, while other processes may do the same.

Each writer reads the members again after it has written the index. Members that joined before this
second reading are in its index; a process that adds a member later writes the index again. The last
index written is therefore right, in whatever order the processes wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.channels import (
    ChannelMember,
    list_channels,
    list_members,
    list_withdrawn,
    require_channel,
)
from binary_checks.fleet.artifacts.derived_index import (
    REPODATA,
    DerivedIndex,
    IndexedMember,
    derive_index,
)
from binary_checks.fleet.artifacts.kept_artifacts import list_artifacts
from binary_checks.fleet.page.site_folder import claim, write_site
from binary_checks.fleet.store import (
    Store,
    ask_at_once,
    conda_prefix,
    index_prefix,
)

# times that members may change while an index is written; each takes a few requests per project
_ROUNDS = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelView:
    """The contents of a channel at one time."""

    members: tuple[ChannelMember, ...]
    artifacts: Mapping[str, Artifact]  # by SHA-256, for members with a valid document
    faults: tuple[str, ...]  # invalid members and documents, a line each
    withdrawn: Mapping[str, str] = field(default_factory=dict)  # SHA-256 -> reason

    def derive(self, channel: str, base: str = "") -> DerivedIndex:
        """Return the index of these members."""
        return derive_index(channel, self._list_indexed(), base)

    def _list_indexed(self) -> Iterable[IndexedMember]:
        for each in self.members:
            if each.sha256 in self.artifacts:
                yield IndexedMember(
                    name=f"{each.folder}/{each.file_name}",
                    artifact=self.artifacts[each.sha256],
                    withdrawn=self.withdrawn.get(each.sha256),
                )


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexWritten:
    """The result of writing an index, with the members that it could not list."""

    index: DerivedIndex
    faults: tuple[str, ...]
    written: int = 0  # objects
    removed: int = 0


def view_channel(
    store: Store, channel: str, known: Mapping[str, Artifact] | None = None
) -> ChannelView:
    """Read a channel's members and their documents, except for those in ``known``.

    Documents never change, so one that was read before need not be read again.
    """
    faults: list[str] = []
    members = list_members(store, require_channel(channel), faults)
    known = known or {}
    wanted = {each.sha256 for each in members}
    lacking = sorted(wanted - known.keys())
    read = {each.sha256: each for each in list_artifacts(store, lacking, faults)}
    artifacts = {sha256: each for sha256, each in known.items() if sha256 in wanted}
    return ChannelView(
        members=tuple(members),
        artifacts={**artifacts, **read},
        faults=tuple(faults),
        withdrawn=list_withdrawn(store, channel),
    )


def view_known_channel(store: Store, channel: str) -> ChannelView:
    """Read a known channel's members and their documents (see `view_channel`).

    Raises ProfileError for a mistyped channel, which has neither members nor an index.
    """
    view = view_channel(store, channel)
    if view.members or view.faults or _list_stored(store, channel):
        return view
    known = ", ".join(list_channels(store)) or "none has members"
    raise ProfileError(f"{store.url}: no channel {channel} (known: {known})")


def write_index(store: Store, channel: str) -> IndexWritten:
    """Make the store's index of a channel match its members.

    Files that an installer could not read are left out and reported. Raises ProfileError for an
    unknown channel, and StoreError if the store fails or members never stop changing.
    """
    view = view_known_channel(store, channel)
    written = removed = 0
    for _ in range(_ROUNDS):
        index = view.derive(channel)
        stored = _list_stored(store, channel)
        changed = _write(store, index, stored)
        stale = sorted(stored.keys() - index.pages.keys() - index.files.keys())
        again = view_channel(store, channel, view.artifacts) if changed or stale else view
        same = again.members == view.members and again.withdrawn == view.withdrawn
        written += changed
        if same and not stale:
            faults = (*again.faults, *index.faults)
            return IndexWritten(index=index, faults=faults, written=written, removed=removed)
        if same:  # so that no file of a member that joined meanwhile is removed
            _do_all(store.delete, stale)
            removed += len(stale)
            again = view_channel(store, channel, again.artifacts)
        view = again
    raise StoreError(f"{store.url}: {channel}: its members kept changing; run this again")


def is_indexed(store: Store, channel: str) -> bool:
    """Return whether the store has an index for the channel."""
    return bool(_list_stored(store, channel))


def find_differences(store: Store, index: DerivedIndex) -> list[str]:
    """Return the names of index objects that are missing, superfluous or different in the store."""
    stored = _list_stored(store, index.channel)
    pages = {**dict.fromkeys(index.files), **index.pages}
    differing = {*_find_changed(store, index.pages, stored), *(pages.keys() ^ stored.keys())}
    sizes = {name for name, file in index.files.items() if stored.get(name) != file.size}
    return sorted(differing | sizes)


def _list_stored(store: Store, channel: str) -> dict[str, int]:
    """Return the sizes of all objects of the channel's indexes by name."""
    prefixes = (index_prefix(channel), conda_prefix(channel))
    return {each.name: each.size for prefix in prefixes for each in store.names(prefix)}


def _write(store: Store, index: DerivedIndex, stored: Mapping[str, int]) -> int:
    """Write objects that differ, pages before the lists that link to them; return their number."""
    copies = _find_uncopied(store, index, stored)
    _do_all(lambda name: store.repeat(name, index.files[name].source), copies)
    changed = _find_changed(store, index.pages, stored)
    lists = [name for name in changed if name.count("/") == 2]
    _do_all(lambda name: store.replace(name, index.pages[name]), [*{*changed} - {*lists}])
    _do_all(lambda name: store.replace(name, index.pages[name]), lists)
    return len(copies) + len(changed)


def _do_all(do: Callable[[str], None], names: Iterable[str]) -> None:
    for _ in ask_at_once(do, names):
        pass


def _find_changed(store: Store, pages: Mapping[str, bytes], stored: Mapping[str, int]) -> list[str]:
    """Return the names of pages that are missing in the store or differ there."""
    alike = [name for name, content in pages.items() if stored.get(name) == len(content)]
    contents = dict(zip(alike, ask_at_once(store.read, alike), strict=True))
    return [name for name, content in pages.items() if contents.get(name) != content]


def _find_uncopied(store: Store, index: DerivedIndex, stored: Mapping[str, int]) -> list[str]:
    """Return the names of packages to copy next to their index.

    They are missing there, or the index lists them with another hash.
    """
    if not index.files:
        return []
    hashes: dict[str, str] = {}
    for name in stored:
        if name.endswith(f"/{REPODATA}"):
            folder = name.removesuffix(REPODATA)
            hashes |= {f"{folder}{key}": value for key, value in _read_hashes(store.read(name))}
    return [
        name
        for name, file in index.files.items()
        if stored.get(name) != file.size or hashes.get(name) != file.sha256
    ]


def _read_hashes(content: bytes | None) -> list[tuple[str, str]]:
    """Return the file names and SHA-256 that an index lists, or [] if it cannot be read."""
    try:
        page = json.loads(content or b"{}")
        tables = (page.get("packages", {}), page.get("packages.conda", {}))
        return [(name, row["sha256"]) for table in tables for name, row in table.items()]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return []


# The indexes of channels as a folder for a static site, with the files that they link to.

_MAKER = "index"


def write_static(
    store: Store, channels: Sequence[str], folder: Path, base: str = ""
) -> list[IndexWritten]:
    """Make the folder hold the indexes of these channels, and nothing else.

    With ``base``, the URL where the store is served, all links lead there and no package is copied.
    Raises ProfileError for an unknown channel, or if the folder contains other files.
    """
    claim(folder, _MAKER)  # first, because checking the folder is cheaper than reading the store
    views = [view_known_channel(store, each) for each in channels]
    indexes = [view.derive(name, base) for view, name in zip(views, channels, strict=True)]
    files = {} if base else dict(_list_files(indexes))
    pages = {name: page for each in indexes for name, page in each.pages.items()}
    write_site(folder, _fetch(store, files, pages), _MAKER)
    return [
        IndexWritten(
            index=index, faults=(*view.faults, *index.faults), written=len(files) + len(pages)
        )
        for view, index in zip(views, indexes, strict=True)
    ]


def _list_files(indexes: Iterable[DerivedIndex]) -> Iterator[tuple[str, str]]:
    """Yield each file's name in the folder and its name in the store."""
    for index in indexes:
        for each in index.wheels:
            yield each.object_name, each.object_name
            if each.metadata_sha256:
                yield each.metadata_name, each.metadata_name
        yield from ((name, file.source) for name, file in index.files.items())


def _fetch(
    store: Store, files: dict[str, str], pages: dict[str, bytes]
) -> Iterator[tuple[str, bytes | Path]]:
    """Yield the files one by one, the lists of projects last."""
    for name, source in sorted(files.items()):
        with store.local(source) as path:
            yield name, path
    for name in sorted(pages, key=lambda name: (-name.count("/"), name)):
        yield name, pages[name]
