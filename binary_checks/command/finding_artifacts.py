"""``binary-checks artifact find``: which artifacts a store keeps, and in which channels."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from binary_checks.command import TRY_AGAIN, UNREADABLE, SubcommandParser, complain
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.channels import demand_channel, list_channels
from binary_checks.fleet.artifacts.kept_verdicts import label_artifacts
from binary_checks.fleet.artifacts.matching import (
    FIELDS,
    FoundArtifact,
    choose,
    keep_latest,
    list_found,
    read_wish,
    spell_found,
    tell_nearest,
    write_found,
)
from binary_checks.fleet.store import Store, open_store
from binary_checks.lines import one_line

_PURPOSE = "List the artifacts of a store, with what they are and their channels."


def run(arguments: Sequence[str]) -> int:
    """List artifacts; returns the exit status: 1 where there is none such."""
    parser = SubcommandParser(prog="binary-checks artifact find", description=_PURPOSE)
    add_wishes(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--json", action="store_true", help="print a document with all that is known of them"
    )
    how.add_argument("--ids", action="store_true", help="print only their SHA-256, one per line")
    parser.add_argument(
        "--verdicts", action="store_true", help="show which are untested, failing or passed"
    )
    options = parser.parse_args(arguments)
    store = open_store(options.store)
    found, sound = find_wanted(store, options)
    if options.verdicts:
        labels = label_artifacts(store, [each.artifact.sha256 for each in found])
        found = [replace(each, verdict=labels[each.artifact.sha256]) for each in found]
    if options.json:
        sys.stdout.write(write_found(found))
    elif options.ids:
        for each in found:
            print(each.artifact.sha256)
    elif found:
        _print_table(found)
    if not sound:
        return TRY_AGAIN
    return 0 if found else UNREADABLE


def find_wanted(store: Store, options: argparse.Namespace) -> tuple[list[FoundArtifact], bool]:
    """Those that the options mean, and whether all documents could be read to know it.

    Where there is none, one line says which is the nearest.
    """
    wish = read_wish(
        options.where,
        project=options.project,
        version=options.version,
        commit=options.commit.lower(),
        sha256=options.sha256.lower(),
    )
    channels = [demand_channel(each) for each in options.channel]
    if unknown := sorted({*channels} - {*(known := list_channels(store))}):
        raise ProfileError(
            f"{store.url}: no channel {unknown[0]} (known: {', '.join(known) or 'none'})"
        )
    broken: list[str] = []
    there = list_found(store, channels, broken)
    for line in broken:
        complain(line)
    found = choose(there, wish)
    found = keep_latest(found) if options.latest else found
    if not found:
        where = f"{store.url}: {', '.join(channels)}: " if channels else f"{store.url}: "
        complain(f"{where}no artifact matches; {tell_nearest(there, wish)}")
    return found, not broken


def add_wishes(parser: SubcommandParser) -> None:
    """The options by which artifacts are chosen."""
    add = parser.add_argument
    parser.add_store()
    add(
        "--where",
        metavar="CONDITION",
        action="append",
        default=[],
        help=f'"variant=cu* python=3.12": globs of {", ".join(FIELDS)}',
    )
    add(
        "--channel",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="only members of this channel (repeatable)",
    )
    add("--project", metavar="NAME", default="", help="only this project")
    add("--version", metavar="VERSION", default="", help="only this version")
    add(
        "--commit",
        metavar="HEX",
        default="",
        help="only builds of this commit, or of one that begins like this",
    )
    add(
        "--sha256",
        metavar="HEX",
        default="",
        help="only the file with this SHA-256, or one that begins like this",
    )
    add("--latest", action="store_true", help="only the newest version of each configuration")


def _print_table(found: Sequence[FoundArtifact]) -> None:
    rows = [tuple(map(one_line, row)) for row in spell_found(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
