"""``binary-checks artifact index``: writes the index of channels, from which users install."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from binary_checks.command import UNREADABLE, SubcommandParser
from binary_checks.command.updating_indexes import tell_faults
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.channel_index import IndexWritten, write_index, write_static
from binary_checks.fleet.artifacts.channels import list_channels
from binary_checks.fleet.store import open_store
from binary_checks.reports.verdict_texts import count

_PURPOSE = "Write the index of channels, from which pip, uv and conda's tools install."


def run(arguments: Sequence[str]) -> int:
    """Write them; returns the exit status: 1 where a member cannot be listed."""
    options = _options().parse_args(arguments)
    base = _read_base(options)
    store = open_store(options.store)
    channels = [*dict.fromkeys(options.channel)] or list_channels(store)
    if not channels:
        raise ProfileError(f"artifact index: {store.url}: no channel has members")
    if options.output is None:
        written, place = [write_index(store, each) for each in channels], store.url
    else:
        written, place = write_static(store, channels, options.output, base), str(options.output)
    for each in written:
        _tell(each, place)
    return UNREADABLE if any(each.faults for each in written) else 0


def _tell(done: IndexWritten, place: str) -> None:
    index = done.index
    held = count(len(index.wheels), "wheel")
    if index.condas:
        held += f" and {count(len(index.condas), 'conda package')}"
    removed = f", {done.removed:,} removed" if done.removed else ""
    changed = f"{count(done.written, 'object')} written{removed}"
    print(f"{place}: channel {index.channel}: {held}: {changed}")
    tell_faults(index.channel, done.faults)


def _read_base(options: argparse.Namespace) -> str:
    """The URL before every link, with its "/"."""
    base: str = options.base
    if not base:
        return ""
    if options.output is None:
        raise ProfileError(
            "artifact index: --base goes with --output: the links in a store are relative"
        )
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https", "file") or parts.query or parts.fragment:
        raise ProfileError("artifact index: --base: not an http, https or file URL without a query")
    if parts.username or parts.password:
        raise ProfileError("artifact index: --base: has credentials, which everybody would read")
    return f"{base.rstrip('/')}/"


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact index", description=_PURPOSE)
    add = parser.add_argument
    parser.add_store()
    add(
        "--channel",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="only the index of this channel (repeatable; default: all channels)",
    )
    add(
        "--output",
        metavar="FOLDER",
        type=Path,
        help="write a folder for a static site, files included, and nothing to the store",
    )
    add(
        "--base",
        metavar="URL",
        default="",
        help="the address of the files, which are then left out of the folder",
    )
    return parser
