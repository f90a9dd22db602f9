"""``binary-checks artifact prune``: shows what a channel would lose, and does it when told so."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from binary_checks.command import UNREADABLE, SubcommandParser, complain
from binary_checks.command.nightly.pruning_nights import tell_gone
from binary_checks.errors import ProfileError
from binary_checks.fleet.nights.channel_pruning import prune_channel, read_history
from binary_checks.fleet.nights.channel_retention import ExpiryRule, expire
from binary_checks.fleet.store import open_store
from binary_checks.lines import one_line
from binary_checks.reports.html.figures import spell_size
from binary_checks.reports.verdict_texts import count

_PURPOSE = "Show which members a channel would lose by number and age, and which files with them."


def run(arguments: Sequence[str]) -> int:
    """Show what would be deleted, or delete it; returns the exit status."""
    options = _options().parse_args(arguments)
    if options.keep < 1 or options.days < 0:
        raise ProfileError("artifact prune: --keep: at least 1; --days: at least 0")
    store, channel = open_store(options.store), options.channel
    history = read_history(store, channel)
    retention = expire(history, ExpiryRule(channel=channel, keep=options.keep, days=options.days))
    stays = count(len(retention.kept), "member")
    print(one_line(f"{store.url}: channel {channel}: {stays} kept, {len(retention.members):,} go"))
    for line in tell_gone(retention.steps, names=options.names):
        print(one_line(line))
    objects = sum(map(len, retention.steps))
    size = spell_size(sum(each.stored.size for step in retention.steps for each in step))
    if not options.do_it:
        going = f"{count(objects, 'object')}, {size}"
        print(f"would delete {going}; nothing is deleted without --do-it")
        return 0
    done = prune_channel(store, channel, retention, history)
    print(f"deleted {count(done.deleted, 'object')}, {size}")
    for name in done.refilled:
        complain(f"{name}: it joined while its bytes were deleted: push it again")
    return UNREADABLE if done.refilled else 0


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact prune", description=_PURPOSE)
    add = parser.add_argument
    parser.add_store()
    add("--channel", metavar="CHANNEL", required=True, help="the only channel that loses members")
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
        help="and keep all that were pushed within N days (default: 0)",
    )
    add("--names", action="store_true", help="list every object that would be deleted")
    add("--do-it", action="store_true", help="really delete; nothing is deleted without it")
    return parser
