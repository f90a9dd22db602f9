"""``binary-checks artifact promote``: puts files into a channel that its policy lets through."""

from __future__ import annotations

import argparse
import getpass
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from binary_checks.command import TRY_AGAIN, UNREADABLE, SubcommandParser, complain
from binary_checks.command.signing_options import add_signing_options, read_signing_keys
from binary_checks.command.updating_indexes import update_index
from binary_checks.documents.json_values import dump
from binary_checks.errors import ArtifactRefusedError, ProfileError, StoreError
from binary_checks.fleet.artifacts.channels import demand_channel, list_members
from binary_checks.fleet.artifacts.gating import Gate
from binary_checks.fleet.artifacts.matching import (
    MemberWish,
    choose_members,
    find_with_gpu,
    list_gpu_fields,
)
from binary_checks.fleet.artifacts.policy_file import GatePolicy, read_policy
from binary_checks.fleet.artifacts.promoting import Occasion, PromotionCandidate, promote, weigh
from binary_checks.fleet.artifacts.signatures import SigningKey
from binary_checks.fleet.cells.cells_file import read_cells
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.fleet.store import Store, open_store
from binary_checks.lines import MOST, cut, one_line

_PURPOSE = "Add files of one channel to another, if its policy lets them through."
_REPORT = "binary-checks/promotions/1"
_PROMOTED, _WOULD, _REFUSED, _BROKE = "promoted", "would be promoted", "refused", "not promoted"
_ACTORS = ("GITHUB_ACTOR", "GITLAB_USER_LOGIN", "CIRCLE_USERNAME", "BUILD_REQUESTEDFOR")


def run(arguments: Sequence[str]) -> int:
    """Promote; returns the exit status."""
    options = _options().parse_args(arguments)
    demand_channel(options.source)
    demand_channel(options.to)
    now = datetime.now(timezone.utc)
    matrix = _read_matrix(options)
    policy = _read_policy(options, matrix, now)
    gate = policy.gate_of(options.to)
    _demand_source(gate, options.source, policy)
    keys = read_signing_keys(options)
    _demand_promoter(gate, keys, options)
    store = open_store(options.store)
    broken: list[str] = []
    wish = MemberWish(names=options.names, where=options.where, digests=options.sha256)
    chosen = choose_members(store, options.source, wish, broken)
    occasion = Occasion(
        gate=gate,
        source=options.source,
        now=now,
        by=options.by or name_actor(),
        keys=keys,
        fields=list_gpu_fields(matrix.cells) if matrix else frozenset(),
    )
    members = {each.sha256 for each in list_members(store, options.to)}
    with_gpu = find_with_gpu(matrix.cells, chosen) if matrix else frozenset[str]()
    candidates = weigh(store, occasion, chosen, members=members, with_gpu=with_gpu)
    for line in (*policy.warnings, *broken):
        complain(f"artifact promote: {line}")
    if broken and options.all_or_nothing:
        raise StoreError("artifact promote: --all-or-nothing: not all of them can be read")
    return _carry_out(store, occasion, candidates, options) or (UNREADABLE if broken else 0)


def _carry_out(
    store: Store,
    occasion: Occasion,
    candidates: Sequence[PromotionCandidate],
    options: argparse.Namespace,
) -> int:
    refused = [each for each in candidates if not each.decision.passes]
    held = options.all_or_nothing and bool(refused)
    rows = []
    for candidate in candidates:
        state, why = _settle(store, occasion, candidate, hold=held or options.dry_run)
        if held and state == _WOULD:
            state, why = "held back", [f"--all-or-nothing, and {len(refused):,} refused"]
        rows.append((candidate, state, why))
    if options.json:
        print(dump(_describe(occasion, rows)))
    else:
        for line in _tell(rows):
            print(cut(one_line(line)))
    states = {state for _, state, _ in rows}
    indexed = 0
    if not options.no_index and _PROMOTED in states:
        indexed = update_index(store, occasion.gate.channel)
    return UNREADABLE if _REFUSED in states else TRY_AGAIN if _BROKE in states else indexed


def _settle(
    store: Store, occasion: Occasion, candidate: PromotionCandidate, *, hold: bool
) -> tuple[str, list[str]]:
    """What became of a file, and why where it is not in."""
    if candidate.is_member:
        return "there already", []
    if not candidate.decision.passes:
        return _REFUSED, [each.spell() for each in candidate.decision.refusals]
    if hold:
        return _WOULD, []
    try:
        joined = promote(store, occasion, candidate)
    except ArtifactRefusedError as error:  # another file of that name was quicker
        return _REFUSED, [str(error)]
    except StoreError as error:  # of the others each is told by itself
        return _BROKE, [str(error)]
    return (_PROMOTED if joined else "there already"), []


def _tell(rows: Iterable[tuple[PromotionCandidate, str, list[str]]]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for candidate, state, why in rows:
        counts[state] = counts.get(state, 0) + 1
        about = f"{candidate.artifact.file_name}: {state}"
        more = f" (and {len(why) - 1} more: --json)" if len(why) > 1 else ""
        yield f"{about}: {why[0]}{more}" if why else about
        if candidate.decision.passes:
            yield from (f"  despite {line}" for line in candidate.decision.waived)
        faults = candidate.faults if state == _REFUSED else ()
        yield from (f"  {fault}" for fault in faults[:MOST])
        if len(faults) > MOST:
            yield f"  and {len(faults) - MOST:,} more that count for nothing: --json has them"
    yield ", ".join(f"{count:,} {state}" for state, count in counts.items())


def _describe(
    occasion: Occasion, rows: Iterable[tuple[PromotionCandidate, str, list[str]]]
) -> dict[str, Any]:
    """The document of a promotion, for programs."""
    return {
        "schema": _REPORT,
        "from": occasion.source,
        "to": occasion.gate.channel,
        "policy_sha256": occasion.gate.digest,
        "files": [
            {
                "file_name": candidate.artifact.file_name,
                "sha256": candidate.artifact.sha256,
                "project": candidate.artifact.project,
                "state": state,
                "reasons": why,
                "verdicts": [*candidate.decision.verdicts],
                "waived": [*candidate.decision.waived],
                "notes": [*candidate.decision.notes, *candidate.faults],
            }
            for candidate, state, why in rows
        ],
    }


def _read_matrix(options: argparse.Namespace) -> Matrix | None:
    """The matrix, if one is named, or lies in this folder and no policy is named."""
    if options.cells:
        return read_cells(Path(options.cells))
    usual = Path("cells.toml")
    return read_cells(usual) if not options.policy and usual.is_file() else None


def _read_policy(options: argparse.Namespace, matrix: Matrix | None, now: datetime) -> GatePolicy:
    """The policy that is named, or that the matrix names as the gate of the channel."""
    if options.policy:
        return read_policy(Path(options.policy), now.date())
    gate = matrix.sources[options.to].gate if matrix and options.to in matrix.sources else ""
    if not matrix or not gate:
        said = f'--policy FILE, or gate = "policy.toml" in [sources.{options.to}] of cells.toml'
        raise ProfileError(f"artifact promote: no policy: give {said}")
    return read_policy(matrix.folder / gate, now.date())


def _demand_source(gate: Gate, source: str, policy: GatePolicy) -> None:
    if source == gate.channel:
        raise ProfileError(f"artifact promote: --from and --to are both {source}")
    if gate.sources and source not in gate.sources:
        known = ", ".join(gate.sources)
        said = f"channels.{gate.channel}: from: {known}; nothing comes from {source}"
        raise ProfileError(f"{policy.source}: {said}")


def _demand_promoter(gate: Gate, keys: Sequence[SigningKey], options: argparse.Namespace) -> None:
    """Raise ProfileError where the record must be signed, and none of the keys counts."""
    if not gate.promoters or options.dry_run:
        return
    trusted = {each.public for each in gate.promoters}
    if not any(key.public in trusted for key in keys):
        names = ", ".join(each.name for each in gate.promoters)
        said = f"channels.{gate.channel} must be signed by one of {names}"
        raise ProfileError(f"artifact promote: --key: {said}")


def name_actor() -> str:
    """Who does it, as CI or the system says: nobody is authenticated by it."""
    found = next(filter(None, map(os.environ.get, _ACTORS)), "")
    with suppress(OSError, KeyError, ImportError):
        found = found or getpass.getuser()
    return cut(one_line(found), 100)


def add_member_options(parser: argparse.ArgumentParser, least: str) -> None:
    """Take the members that are meant, what becomes of the index, and who does it."""
    add = parser.add_argument
    add("names", metavar="NAME", nargs=least, help="projects, file names, globs, or paths of files")
    add("--sha256", metavar="HEX", action="append", default=[], help="only this one (repeatable)")
    add("--no-index", action="store_true", help="do not update the channel's index")
    add("--by", metavar="NAME", default="", help="who does it (default: as CI or the system says)")


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact promote", description=_PURPOSE)
    add = parser.add_argument
    parser.add_store()
    add("--from", dest="source", metavar="CHANNEL", required=True, help="the channel they are in")
    add("--to", metavar="CHANNEL", required=True, help="the channel to add them to")
    add("--policy", metavar="FILE", help="the policy (default: the channel's gate in cells.toml)")
    add("--cells", metavar="FILE", help="the matrix: cells with a GPU stage need its verdict")
    parser.add_where("files")
    add("--all-or-nothing", action="store_true", help="promote nothing if anything is refused")
    add("--dry-run", action="store_true", help="show what would be done, but do nothing")
    add("--json", action="store_true", help="print a document instead of lines")
    add_member_options(parser, least="*")
    add_signing_options(parser, "the records of promotions")
    return parser
