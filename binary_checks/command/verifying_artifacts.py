"""``binary-checks artifact verify``: holds what a store keeps against itself, from anywhere."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from binary_checks.command import TRY_AGAIN, UNREADABLE, SubcommandParser
from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts.policy_file import read_policy
from binary_checks.fleet.artifacts.verifying import Verifier, VerifyScope, read_scope, verify
from binary_checks.fleet.cells.cells_file import read_cells
from binary_checks.fleet.store import open_store
from binary_checks.lines import cut, one_line
from binary_checks.reports.html.templating import spell_size
from binary_checks.reports.verdict_texts import count

_PURPOSE = (
    "Check every file, document and index of a store against its hashes, from the store alone."
)


def run(arguments: Sequence[str]) -> int:
    """Verify; returns the exit status: 1 where something is wrong, 6 where it cannot be read."""
    options = _options().parse_args(arguments)
    today = datetime.now(timezone.utc).date()
    policy = read_policy(Path(options.policy), today) if options.policy else None
    cells = read_cells(Path(options.cells)).cells if options.cells else ()
    store = open_store(options.store)
    try:
        scope = read_scope(store, [*dict.fromkeys(options.channel)])
    except RecordError as error:  # a withdrawal that is broken must not be passed over
        print(cut(one_line(f"{error}")))
        print("1 fault; nothing else was verified")
        return UNREADABLE
    scope = replace(scope, by=Verifier(policy=policy, cells=cells))
    wrong = unknown = 0
    for each in verify(scope):
        wrong, unknown = wrong + each.looked, unknown + (not each.looked)
        word = "" if each.looked else "not verified: "
        print(cut(one_line(f"{word}{each.about}: {each.text}")), flush=True)
    print(_tell(scope))
    if wrong or unknown:
        print(f"{count(wrong, 'fault')}, {unknown:,} not verified")
    return UNREADABLE if wrong else TRY_AGAIN if unknown else 0


def _tell(scope: VerifyScope) -> str:
    """What was looked at."""
    files = f"{count(len(scope.artifacts), 'file')}, {spell_size(scope.size)}"
    channels = (
        f"{name} ({count(len(view.members), 'member')}"
        f"{'' if name in scope.indexed else ', without an index'})"
        for name, view in scope.channels.items()
    )
    line = f"{scope.store.url}: verified {files}; channels: {', '.join(channels) or 'none'}"
    if scope.whole and scope.unfinished:
        line += f"; {len(scope.unfinished):,} that a push did not finish, which are ignored"
    promoted = any("/promotions/" in name for name in scope.names)
    policy = scope.by.policy
    if policy is None:
        own = (
            "; promotions checked by their own records only (--policy FILE: by keys that you trust)"
        )
        line += own if promoted else ""
    else:
        gated = ", ".join(sorted(policy.gates.keys() & scope.channels.keys())) or "none"
        line += f"; gates of {policy.source}: {gated}"
    return one_line(line)


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact verify", description=_PURPOSE)
    add = parser.add_argument
    parser.add_store()
    add(
        "--channel",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="only members of this channel (repeatable; default: the whole store)",
    )
    add(
        "--policy",
        metavar="FILE",
        help="trust the keys and gates of this policy, not those that the store recorded",
    )
    add(
        "--cells",
        metavar="FILE",
        help="the matrix: files with a GPU stage need its verdict, whatever their records say",
    )
    return parser
