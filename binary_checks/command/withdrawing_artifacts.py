"""``binary-checks artifact withdraw``: has a channel advise against files that it has."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from datetime import datetime, timezone

from binary_checks.command import SubcommandParser
from binary_checks.command.artifact_channels import add_member_options, name_actor
from binary_checks.command.updating_indexes import update_index
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.channel_index import is_indexed
from binary_checks.fleet.artifacts.channels import Withdrawal, demand_channel, withdraw
from binary_checks.fleet.artifacts.matching import MemberWish, choose_members
from binary_checks.fleet.store import open_store
from binary_checks.lines import cut, one_line

_PURPOSE = "Mark files of a channel as yanked: installers skip them unless they are pinned."


def run(arguments: Sequence[str]) -> int:
    """Withdraw files; returns the exit status."""
    options = _options().parse_args(arguments)
    channel = demand_channel(options.channel)
    reason = cut(one_line(options.reason.strip()))
    if not reason:
        raise ProfileError(
            "artifact withdraw: --reason is empty: it is what users of the files will read"
        )
    store = open_store(options.store)
    chosen = choose_members(store, channel, MemberWish(names=options.names, digests=options.sha256))
    for artifact in chosen:
        new = withdraw(
            store,
            artifact,
            Withdrawal(
                sha256=artifact.sha256,
                file_name=artifact.file_name,
                channel=channel,
                reason=reason,
                at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
                by=options.by or name_actor(),
            ),
        )
        print(one_line(f"{artifact.file_name}: {'withdrawn' if new else 'withdrawn already'}"))
    if not options.no_index and is_indexed(store, channel):
        return update_index(store, channel)
    return 0


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact withdraw", description=_PURPOSE)
    add = parser.add_argument
    parser.add_store()
    add("--channel", metavar="CHANNEL", required=True, help="the channel they are in")
    add("--reason", metavar="TEXT", required=True, help="why; installers show it")
    add_member_options(parser, least="+")
    return parser
