"""``binary-checks artifact prune``: shows what a channel would lose, and does it when told so."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime, timezone

from binary_checks.command import SubcommandParser
from binary_checks.command.pruning import finish, tell_gone
from binary_checks.errors import ProfileError
from binary_checks.fleet.retention.pruning import read_prune_view
from binary_checks.fleet.retention.rules import ExpiryRule, expire
from binary_checks.fleet.store import open_store
from binary_checks.lines import one_line
from binary_checks.reports.verdict_texts import count

_MOST_DAYS = 36_500  # a date so long ago is still one
_PURPOSE = "Show which members a channel would lose by number and age, and which files with them."


def run(arguments: Sequence[str]) -> int:
    """Show what would be deleted, or delete it; returns the exit status."""
    options = _options().parse_args(arguments)
    if options.keep < 1 or not 0 <= options.days <= _MOST_DAYS:
        raise ProfileError(f"artifact prune: --keep: at least 1; --days: 0 to {_MOST_DAYS:,}")
    store, channel = open_store(options.store), options.channel
    view = read_prune_view(store, channel)
    rule = ExpiryRule(channel=channel, keep=options.keep, days=options.days)
    retention = expire(view.history, rule, datetime.now(timezone.utc))
    stays = count(len(retention.kept), "member")
    print(one_line(f"{store.url}: channel {channel}: {stays} kept, {len(retention.steps[0]):,} go"))
    for line in tell_gone(retention.steps, names=options.names):
        print(one_line(line))
    return finish(store, retention, view, do_it=options.do_it)


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
