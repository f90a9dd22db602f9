"""``binary-checks nightly prune`` and ``artifact prune``: deletions from a store by retention."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from binary_checks.command import UNREADABLE, SubcommandParser, complain
from binary_checks.errors import ProfileError
from binary_checks.fleet.retention.pruning import PruneView, carry_out, read_prune_view
from binary_checks.fleet.retention.rules import (
    Deletion,
    Entry,
    ExpiryRule,
    Retention,
    expire,
    retain,
)
from binary_checks.fleet.store import FACTS, NIGHTS, Store, open_store
from binary_checks.reports.html.templating import format_size
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

# ``binary-checks nightly prune``: show what retention would delete; ``--do-it`` deletes it.

_PRUNE_NIGHTS = "Show what retention would delete from a store, and why it keeps the rest."


def run_prune_nights(arguments: Sequence[str]) -> int:
    """Show what retention would delete, or delete it; return the exit status."""
    options = _make_prune_nights_parser().parse_args(arguments)
    if options.keep < 1:
        raise ProfileError("prune: --keep: at least 1 night of each cell is kept")
    store = open_store(options.store)
    view = read_prune_view(store)
    retention = retain(view.history, keep=options.keep, expiring=frozenset(options.expire))
    for channel in sorted({*options.expire} - {each.channel for each in view.history.members}):
        complain(f"nightly prune: --expire {channel}: the store holds no package of that channel")
    print(f"{store.url}: {count(len(view.nights), 'night')}, {view.closed} of them closed")
    for line in (*_iter_kept(retention), *iter_deletions(retention.steps, names=options.names)):
        print(one_line(line))
    return finish(store, retention, view, do_it=options.do_it)


def finish(store: Store, retention: Retention[Any], view: PruneView, *, do_it: bool) -> int:
    """Delete the objects, or print how much would be deleted; return the exit status."""
    size = _format_sum(each.stored.size for each in retention.deletions)
    if not do_it:
        going = f"{count(len(retention.deletions), 'object')}, {size}"
        print(f"would delete {going}; nothing is deleted without --do-it")
        return 0
    done = carry_out(store, retention, view)
    print(f"deleted {count(done.deleted, 'object')}, {size}")
    for name in done.refilled:
        complain(f"{name}: it was added while its bytes were deleted: push it again")
    return UNREADABLE if done.refilled else 0


def _iter_kept(retention: Retention[Entry]) -> Iterator[str]:
    """Yield a line for each cell, with the nights kept and the reasons."""
    cells: dict[str, dict[tuple[str, ...], list[str]]] = {}
    for (cell, night), why in sorted(retention.kept.items()):
        cells.setdefault(cell, {}).setdefault(why, []).append(night)
    for cell, groups in cells.items():
        shown = (f"{_format_nights(nights)} ({', '.join(why)})" for why, nights in groups.items())
        yield f"kept: {cell}: {'; '.join(shown)}"


def _format_nights(nights: Sequence[str]) -> str:
    return ", ".join(nights) if len(nights) < 3 else f"{nights[0]} … {nights[-1]}"


def iter_deletions(steps: Iterable[Sequence[Deletion]], *, names: bool) -> Iterator[str]:
    """Yield a line for the deletions of each night and package, or for each object."""
    groups: dict[str, list[Deletion]] = {}
    for step in steps:
        for each in step:
            groups.setdefault(each.stored.name if names else _group(each), []).append(each)
    for group, deletions in groups.items():
        several = f"{len(deletions):,} objects, " if len(deletions) > 1 else ""
        name = group if several else deletions[0].stored.name
        size = _format_sum(each.stored.size for each in deletions)
        yield f"delete: {name}: {several}{size}: {deletions[0].reason}"


def _group(deletion: Deletion) -> str:
    parts = deletion.stored.name.split("/")
    if parts[0].startswith(NIGHTS):
        return f"{parts[0]}/{parts[1]}/"
    return FACTS if f"{parts[0]}/" == FACTS else f"{'/'.join(parts[:3])}/"


def _format_sum(sizes: Iterable[int]) -> str:
    return format_size(sum(sizes))


def _make_prune_nights_parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks nightly prune", description=_PRUNE_NIGHTS)
    add = parser.add_argument
    parser.add_store()
    add("--keep", metavar="N", type=int, default=5, help="nights kept of each cell (default: 5)")
    add(
        "--expire",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="channel whose packages may be deleted (repeatable); packages in other channels are "
        "kept",
    )
    add("--names", action="store_true", help="list every object that would be deleted")
    add("--do-it", action="store_true", help="really delete; nothing is deleted without it")
    return parser


# ``binary-checks artifact prune``: show what would leave a channel; ``--do-it`` deletes it.

_MOST_DAYS = 36_500  # the resulting date is still valid
_PRUNE_CHANNELS = (
    "Show which members a channel would lose for their number or age, and which files would be "
    "deleted."
)


def run_prune_channels(arguments: Sequence[str]) -> int:
    """Show what would be deleted, or delete it; return the exit status."""
    options = _make_prune_channels_parser().parse_args(arguments)
    if options.keep < 1 or not 0 <= options.days <= _MOST_DAYS:
        raise ProfileError(f"artifact prune: --keep: at least 1; --days: 0 to {_MOST_DAYS:,}")
    store, channel = open_store(options.store), options.channel
    view = read_prune_view(store, channel)
    rule = ExpiryRule(channel=channel, keep=options.keep, days=options.days)
    retention = expire(view.history, rule, datetime.now(timezone.utc))
    stays = count(len(retention.kept), "member")
    print(one_line(f"{store.url}: channel {channel}: {stays} kept, {len(retention.steps[0]):,} go"))
    for line in iter_deletions(retention.steps, names=options.names):
        print(one_line(line))
    return finish(store, retention, view, do_it=options.do_it)


def _make_prune_channels_parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact prune", description=_PRUNE_CHANNELS)
    add = parser.add_argument
    parser.add_store()
    add(
        "--channel",
        metavar="CHANNEL",
        required=True,
        help="the channel from which members are removed",
    )
    add(
        "--keep",
        metavar="N",
        type=int,
        default=5,
        help="keep the newest N of each project and configuration (default: 5)",
    )
    add(
        "--days",
        metavar="N",
        type=int,
        default=0,
        help="also keep files pushed within N days (default: 0)",
    )
    add("--names", action="store_true", help="list every object that would be deleted")
    add("--do-it", action="store_true", help="really delete; nothing is deleted without it")
    return parser
