"""The indexes of channels as a folder for a static site, with the files that they lead to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from binary_checks.fleet.artifacts.channel_index import IndexWritten, view_known_channel
from binary_checks.fleet.artifacts.derived_index import DerivedIndex
from binary_checks.fleet.page.site_folder import claim, write_site
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import metadata_name, package_name

_MAKER = "index"


def write_static(
    store: Store, channels: Sequence[str], folder: Path, base: str = ""
) -> list[IndexWritten]:
    """Make the folder hold the indexes of these channels, and nothing of others.

    With ``base``, the URL where the store is served, all links lead there, and no file is in it.
    Raises ProfileError for a channel that there is not, or a folder that holds something else.
    """
    claim(folder, _MAKER)  # before anything is read: it is the cheaper mistake
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
    """The names that they have there, and in the store."""
    for index in indexes:
        for each in index.wheels:
            name = package_name(each.sha256, each.file_name)
            yield name, name
            if each.metadata_sha256:
                name = metadata_name(each.sha256, each.file_name)
                yield name, name
        yield from ((name, file.source) for name, file in index.files.items())


def _fetch(
    store: Store, files: dict[str, str], pages: dict[str, bytes]
) -> Iterator[tuple[str, bytes | Path]]:
    """One file after the other, lists of projects last."""
    for name, source in sorted(files.items()):
        with store.local(source) as path:
            yield name, path
    for name in sorted(pages, key=lambda name: (-name.count("/"), name)):
        yield name, pages[name]
