"""``binary-checks nightly prune`` and ``artifact prune``: deletions from a store by retention."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timezone

from binary_checks.command import UNREADABLE, SubcommandParser, complain
from binary_checks.command.artifact_files import WHERE
from binary_checks.fleet.artifacts import read_selection
from binary_checks.fleet.retention.pruning import carry_out, read_history
from binary_checks.fleet.retention.rules import Retention, StoreHistory, expire, retain
from binary_checks.fleet.store import FACTS, NIGHTS, Store, Stored, open_store
from binary_checks.reports.html.templating import format_size
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

_MOST_DAYS = 36_500  # the resulting date is still valid


def run_prune_nights(arguments: Sequence[str]) -> int:
    """Show what retention would delete, or delete it; return the exit status."""
    parser = SubcommandParser(
        prog="binary-checks nightly prune",
        description="Show what retention would delete from a store, and what it keeps, and why.",
    )
    parser.add_argument(
        "--expire",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="channel whose packages may be deleted (repeatable); packages in other channels are "
        "kept",
    )
    options = _parse(parser, arguments, "keep the last N nights of each cell")
    store = open_store(options.store)
    history = read_history(store)
    retention = retain(history, keep=options.keep, expiring=frozenset(options.expire))
    for channel in sorted({*options.expire} - {each.channel for each in history.members}):
        complain(f"nightly prune: --expire {channel}: the store holds no package of that channel")
    closed = len(history.nights) - len(history.held)
    print(f"{store.url}: {count(len(history.nights), 'night')}, {closed} of them closed")
    return _finish(store, history, retention, options, ("night", "cell"))


def run_prune_channels(arguments: Sequence[str]) -> int:
    """Show what would be deleted, or delete it; return the exit status."""
    parser = SubcommandParser(
        prog="binary-checks artifact prune",
        description="Show which members a channel would lose for their number or age, and which "
        "files would be deleted.",
    )
    parser.add_argument(
        "--channel",
        metavar="CHANNEL",
        required=True,
        help="the channel from which members are removed",
    )
    parser.add_argument(
        "--days",
        metavar="N",
        type=int,
        default=0,
        help="also keep files pushed within N days (default: 0)",
    )
    parser.add_argument("--where", **WHERE["--where"])
    options = _parse(parser, arguments, "keep the newest N of each project and configuration")
    if not 0 <= options.days <= _MOST_DAYS:
        parser.error(f"--days: 0 to {_MOST_DAYS:,}")
    store, channel, now = open_store(options.store), options.channel, datetime.now(timezone.utc)
    history = read_history(store, channel)
    selection = read_selection(options.where, own=True)
    retention = expire(
        history, channel, now, keep=options.keep, days=options.days, selection=selection
    )
    return _finish(store, history, retention, options, ("member", "channel"))


def _parse(parser: SubcommandParser, arguments: Sequence[str], kept: str) -> Namespace:
    """Add the options of both commands, and read the arguments."""
    parser.add_store()
    add = parser.add_argument
    add("--keep", metavar="N", type=int, default=5, help=f"{kept} (default: 5)")
    add("--names", action="store_true", help="list all that is kept, and every object that is not")
    add("--do-it", action="store_true", help="really delete; nothing is deleted without it")
    options = parser.parse_args(arguments)
    if options.keep < 1:
        parser.error("--keep: at least 1")
    return options


def _finish(
    store: Store,
    history: StoreHistory,
    retention: Retention,
    options: Namespace,
    nouns: tuple[str, str],
) -> int:
    """Count what is kept, list what is deleted, and delete it; return the exit status."""
    reasons = Counter(why for each in retention.kept.values() for why in each)
    shown = ", ".join(f"{number:,} {why}" for why, number in reasons.items()) or "nothing"
    owners = count(len({owner for owner, _ in retention.kept}), nouns[1])
    print(one_line(f"kept: {count(len(retention.kept), nouns[0])} of {owners}: {shown}"))
    for (owner, what), why in sorted(retention.kept.items()) if options.names else ():
        print(one_line(f"kept: {owner}: {what}: {', '.join(why)}"))
    groups: dict[tuple[str, str], list[Stored]] = defaultdict(list)
    for reason, objects in retention.steps:
        for each in objects:
            groups[each.name if options.names else _group(each.name), reason].append(each)
    for (group, reason), found in groups.items():
        several = f"{group}: {len(found):,} objects, " if found[1:] else f"{found[0].name}: "
        print(one_line(f"delete: {several}{_format_sum(found)}: {reason}"))
    going = f"{count(len(retention.deletions), 'object')}, {_format_sum(retention.deletions)}"
    if not options.do_it:
        print(f"would delete {going}; nothing is deleted without --do-it")
        return 0
    refilled = carry_out(store, retention, history)
    print(f"deleted {going}")
    for name in refilled:
        complain(f"{name}: it was added while its bytes were deleted: push it again")
    return UNREADABLE if refilled else 0


def _group(name: str) -> str:
    """Return the folder of a night, of all facts, or of a package or a channel's project."""
    parts = 2 if name.startswith(NIGHTS) else 1 if name.startswith(FACTS) else 3
    return f"{'/'.join(name.split('/')[:parts])}/"


def _format_sum(objects: Sequence[Stored]) -> str:
    return format_size(sum(each.size for each in objects))
