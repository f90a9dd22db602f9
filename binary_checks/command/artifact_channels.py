"""``binary-checks artifact`` for channels: promote, withdraw, index, attest and verify."""

from __future__ import annotations

import argparse
import getpass
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from binary_checks.command import TRY_AGAIN, UNREADABLE, complain
from binary_checks.command.artifact_files import (
    WHERE,
    Options,
    parse_options,
    print_index_faults,
    update_index,
)
from binary_checks.command.signing_options import read_signing_keys, sign_options
from binary_checks.documents.json_values import dump
from binary_checks.errors import ProfileError, RecordError, StoreError
from binary_checks.fleet.artifacts import (
    Artifact,
    Gate,
    GatePolicy,
    IndexWritten,
    PromotionCandidate,
    PromotionSettings,
    SigningKey,
    UploadFolder,
    VerifyScope,
    Withdrawal,
    choose_members,
    decide_promotions,
    find_relabelled,
    find_with_gpu,
    is_indexed,
    keep_verdict,
    list_channels,
    list_members,
    locate_rules,
    name_actor,
    promote,
    read_policy,
    read_scope,
    read_selection,
    require_channel,
    take_night,
    take_results,
    verify,
    withdraw,
    write_index,
    write_static,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.fleet.cells import Matrix, read_cells
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.stored_nights import choose_night
from binary_checks.reports.html.templating import format_size
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import MOST, cut, one_line

_CHANNELS = {"metavar": "CHANNEL", "action": "append", "default": []}
_MEMBERS: Options = {
    "--no-index": {"action": "store_true", "help": "do not update the channel's index"},
    "--by": {
        "metavar": "NAME",
        "default": "",
        "help": "the user's name (default: from CI or the system)",
    },
}
_NAMES = {"metavar": "NAME", "help": "projects, file names, globs, or paths of files"}

# ``binary-checks artifact promote``: add files to a channel if its policy accepts them.

_PROMOTE = "Add files of one channel to another, if its policy accepts them."
_PROMOTE_OPTIONS: Options = {
    "--from": {
        "dest": "source",
        "metavar": "CHANNEL",
        "required": True,
        "help": "the channel that contains the files",
    },
    "--to": {
        "metavar": "CHANNEL",
        "required": True,
        "help": "the channel to which the files are added",
    },
    "--policy": {
        "metavar": "FILE",
        "help": "the policy (default: the channel's gate in cells.toml)",
    },
    "--cells": {
        "metavar": "FILE",
        "help": "the matrix: files of cells with a GPU stage need a verdict of that stage",
    },
    **WHERE,
    "--all-or-nothing": {
        "action": "store_true",
        "help": "promote nothing if anything is refused",
    },
    "--dry-run": {"action": "store_true", "help": "show what would be done, but do nothing"},
    "--json": {"action": "store_true", "help": "print a JSON document instead of lines"},
    "names": {**_NAMES, "nargs": "*"},
    **_MEMBERS,
    **sign_options("the records of promotions"),
}
_REPORT = "binary-checks/promotions/2"
_PROMOTED, _REFUSED, _BROKE = "promoted", "refused", "not promoted"


def run_promote(arguments: Sequence[str]) -> int:
    """Promote files; return the exit status."""
    options = parse_options("promote", _PROMOTE, _PROMOTE_OPTIONS, arguments)
    require_channel(options.source)
    require_channel(options.to)
    now = datetime.now(timezone.utc)
    matrix = _read_matrix(options)
    policy = _read_policy(options, matrix, now)
    gate = policy.gate_of(options.to)
    keys = read_signing_keys(options)
    _require_entry(gate, policy, keys, options)
    store = open_store(options.store)
    broken: list[str] = []
    chosen = choose_members(
        store, options.source, options.names, read_selection(options.where), broken
    )
    settings = PromotionSettings(
        gate=gate,
        source=options.source,
        now=now,
        by=options.by or _name_actor(),
        keys=keys,
    )
    there = list_members(store, options.to)
    members = {each.sha256 for each in there}
    if gate.relabel:
        members |= find_relabelled(store, there, {each.project for each in chosen})
    with_gpu = find_with_gpu(matrix.cells, chosen) if matrix else frozenset[str]()
    candidates = decide_promotions(store, settings, chosen, members=members, with_gpu=with_gpu)
    for line in (*policy.warnings, *broken):
        complain(f"artifact promote: {line}")
    if broken and options.all_or_nothing:
        raise StoreError("artifact promote: --all-or-nothing: not all files can be read")
    with tempfile.TemporaryDirectory(prefix="promote-") as folder:
        uploads = UploadFolder(store, gate, Path(folder))
        if gate.relabel or gate.upload_rules:
            candidates = uploads.prepare(
                candidates, there, locate_rules(gate.upload_rules, policy.folder)
            )
        status = _carry_out(store, settings, candidates, options, uploads)
    return status or (UNREADABLE if broken else 0)


def _carry_out(
    store: Store,
    settings: PromotionSettings,
    candidates: Sequence[PromotionCandidate],
    options: argparse.Namespace,
    uploads: UploadFolder,
) -> int:
    refused = sum(not each.decision.passes for each in candidates)
    hold: tuple[str, list[str]] | None = ("would be promoted", []) if options.dry_run else None
    if options.all_or_nothing and refused:
        hold = ("held back", [f"--all-or-nothing, and {refused:,} refused"])
    rows = [
        (candidate, *_promote_one(store, settings, candidate, uploads, hold))
        for candidate in candidates
    ]
    if options.json:
        print(dump(_describe(settings, rows)))
    else:
        for line in _iter_results(rows):
            print(cut(one_line(line)))
    states = {state for _, state, _ in rows}
    stale = not options.no_index and _PROMOTED in states
    indexed = update_index(store, settings.gate.channel) if stale else 0
    return UNREADABLE if _REFUSED in states else TRY_AGAIN if _BROKE in states else indexed


def _promote_one(
    store: Store,
    settings: PromotionSettings,
    candidate: PromotionCandidate,
    uploads: UploadFolder,
    hold: tuple[str, list[str]] | None,
) -> tuple[str, list[str]]:
    """Return the result for a file, and if it was not added, the reasons.

    ``hold`` is the result for files that would be added, but are not now.
    """
    if candidate.is_member:
        return "there already", []
    if not candidate.decision.passes:
        return _REFUSED, [each.format() for each in candidate.decision.refusals]
    if hold:
        return hold
    try:
        joined = promote(store, settings, candidate, uploads)
    # another process added a different file with the same name
    except ArtifactRefusedError as error:
        return _REFUSED, [str(error)]
    except StoreError as error:  # the other files are reported separately
        return _BROKE, [str(error)]
    return (_PROMOTED if joined else "there already"), []


def _iter_results(rows: Sequence[tuple[PromotionCandidate, str, list[str]]]) -> Iterator[str]:
    for candidate, state, why in rows:
        name, new = candidate.artifact.label, candidate.entering.label
        about = f"{name}: {state}{f' as {new}' if new != name and state != _REFUSED else ''}"
        more = f" (and {len(why) - 1} more: --json)" if len(why) > 1 else ""
        yield f"{about}: {why[0]}{more}" if why else about
        if candidate.decision.passes:
            yield from (f"  despite {line}" for line in candidate.decision.waived)
        faults = candidate.faults if state == _REFUSED else ()
        yield from (f"  {fault}" for fault in faults[:MOST])
        if len(faults) > MOST:
            yield f"  and {len(faults) - MOST:,} more invalid verdicts: --json lists them"
    counts = Counter(state for _, state, _ in rows)
    yield ", ".join(f"{number:,} {state}" for state, number in counts.items())


def _describe(
    settings: PromotionSettings, rows: Iterable[tuple[PromotionCandidate, str, list[str]]]
) -> dict[str, Any]:
    """Return the results of a promotion as a JSON document."""
    return {
        "schema": _REPORT,
        "from": settings.source,
        "to": settings.gate.channel,
        "policy_sha256": settings.gate.digest,
        "files": [
            {
                **_name_file(candidate.artifact),
                "project": candidate.artifact.project,
                "entering": _name_file(candidate.entering),
                "state": state,
                "reasons": why,
                "verdicts": [*candidate.decision.verdicts],
                "waived": [*candidate.decision.waived],
                "notes": [*candidate.decision.notes, *candidate.faults],
            }
            for candidate, state, why in rows
        ],
    }


def _name_file(artifact: Artifact) -> dict[str, str]:
    return {"file_name": artifact.file_name, "sha256": artifact.sha256}


def _read_matrix(options: argparse.Namespace) -> Matrix | None:
    """Return the named matrix, else cells.toml of this folder if no policy is named, else None."""
    if options.cells:
        return read_cells(Path(options.cells))
    usual = Path("cells.toml")
    return read_cells(usual) if not options.policy and usual.is_file() else None


def _read_policy(options: argparse.Namespace, matrix: Matrix | None, now: datetime) -> GatePolicy:
    """Return the named policy, or the policy that the matrix names for the channel."""
    if options.policy:
        return read_policy(Path(options.policy), now.date())
    gate = matrix.sources[options.to].gate if matrix and options.to in matrix.sources else ""
    if not matrix or not gate:
        message = f'--policy FILE, or gate = "policy.toml" in [sources.{options.to}] of cells.toml'
        raise ProfileError(f"artifact promote: no policy: give {message}")
    return read_policy(matrix.folder / gate, now.date())


def _require_entry(
    gate: Gate, policy: GatePolicy, keys: Sequence[SigningKey], options: argparse.Namespace
) -> None:
    """Raise ProfileError if the gate takes nothing from the channel, or wants another signature."""
    source = options.source
    if source == gate.channel:
        raise ProfileError(f"artifact promote: --from and --to are both {source}")
    if gate.sources and source not in gate.sources:
        known = ", ".join(gate.sources)
        message = f"channels.{gate.channel}: from: {known}; it accepts no files from {source}"
        raise ProfileError(f"{policy.source}: {message}")
    trusted = {each.public for each in gate.promoters}
    if trusted and not options.dry_run and trusted.isdisjoint(key.public for key in keys):
        names = ", ".join(each.name for each in gate.promoters)
        message = f"channels.{gate.channel} must be signed by one of {names}"
        raise ProfileError(f"artifact promote: --key: {message}")


def _name_actor() -> str:
    """Return the user's name as CI or the system states it; this is not authenticated."""
    found = name_actor(os.environ)
    with suppress(OSError, KeyError, ImportError):
        found = found or getpass.getuser()
    return cut(one_line(found), 100)


# ``binary-checks artifact withdraw``: mark files of a channel so that nobody installs them.

_WITHDRAW = "Mark files of a channel as yanked: installers skip them unless they are pinned."
_WITHDRAW_OPTIONS: Options = {
    "--channel": {
        "metavar": "CHANNEL",
        "required": True,
        "help": "the channel that contains the files",
    },
    "--reason": {"metavar": "TEXT", "required": True, "help": "why; installers show it"},
    "names": {**_NAMES, "nargs": "+"},
    **WHERE,
    **_MEMBERS,
}


def run_withdraw(arguments: Sequence[str]) -> int:
    """Withdraw files; return the exit status."""
    options = parse_options("withdraw", _WITHDRAW, _WITHDRAW_OPTIONS, arguments)
    channel = require_channel(options.channel)
    reason = cut(one_line(options.reason.strip()))
    if not reason:
        raise ProfileError(
            "artifact withdraw: --reason is empty: installers show the reason to users"
        )
    store = open_store(options.store)
    chosen = choose_members(store, channel, options.names, read_selection(options.where, own=True))
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
                by=options.by or _name_actor(),
            ),
        )
        print(one_line(f"{artifact.label}: {'withdrawn' if new else 'withdrawn already'}"))
    if not options.no_index and is_indexed(store, channel):
        return update_index(store, channel)
    return 0


# ``binary-checks artifact index``: write the index of channels, from which users install.

_INDEX = "Write the index of channels, from which pip, uv and conda's tools install."
_INDEX_OPTIONS: Options = {
    "--channel": {
        **_CHANNELS,
        "help": "only the index of this channel (repeatable; default: all channels)",
    },
    "--output": {
        "metavar": "FOLDER",
        "type": Path,
        "help": "write a folder for a static site, files included, and nothing to the store",
    },
    "--base": {
        "metavar": "URL",
        "default": "",
        "help": "the address of the files, which are then left out of the folder",
    },
}


def run_index(arguments: Sequence[str]) -> int:
    """Write the indexes; return 1 if a member cannot be listed."""
    options = parse_options("index", _INDEX, _INDEX_OPTIONS, arguments)
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
        _print_index(each, place)
    return UNREADABLE if any(each.faults for each in written) else 0


def _print_index(done: IndexWritten, place: str) -> None:
    index = done.index
    condas = f" and {count(len(index.condas), 'conda package')}" if index.condas else ""
    removed = f", {done.removed:,} removed" if done.removed else ""
    changed = f"{count(done.written, 'object')} written{removed}"
    held = f"{count(len(index.wheels), 'wheel')}{condas}"
    print(f"{place}: channel {index.channel}: {held}: {changed}")
    print_index_faults(index.channel, done.faults)


def _read_base(options: argparse.Namespace) -> str:
    """Return the base URL of links, which ends with "/"."""
    base: str = options.base
    if not base:
        return ""
    if options.output is None:
        raise ProfileError(
            "artifact index: --base needs --output, because links in a store are relative"
        )
    parts = urlsplit(base)
    unwanted = parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in ("http", "https", "file") or unwanted:
        wanted = "an http, https or file URL without a query or credentials"
        raise ProfileError(f"artifact index: --base: give {wanted}")
    return f"{base.rstrip('/')}/"


# ``binary-checks artifact attest``: store the verdicts of runs with the artifacts, signed or not.

_ATTEST = "Store the verdicts of result documents, or of a night, with their artifacts."
_ATTEST_OPTIONS: Options = {
    "results": {
        "metavar": "RESULT",
        "nargs": "*",
        "help": "a result document, from --report json:RESULT",
    },
    "--night": {
        "metavar": "DATE",
        "help": "take all results of this night of the store instead",
    },
    **sign_options("each verdict"),
}


def run_attest(arguments: Sequence[str]) -> int:
    """Store verdicts; return the exit status."""
    options = parse_options("attest", _ATTEST, _ATTEST_OPTIONS, arguments)
    if bool(options.results) == (options.night is not None):
        raise ProfileError("artifact attest: give result documents, or --night DATE")
    keys = read_signing_keys(options)
    store = open_store(options.store)
    if options.night is not None:
        found = take_night(store, choose_night(store, options.night))
    else:
        found = take_results(store, map(Path, options.results))
    for verdict in found.verdicts:
        new = keep_verdict(store, verdict, keys)
        how = ("signed" if keys else "kept, not signed") if new else "there already"
        where = f" at {', '.join(verdict.places)}" if verdict.places and verdict.ran_on else ""
        print(cut(one_line(f"{verdict.file_name}: {verdict.word}{where}, {verdict.ended}: {how}")))
    for line in found.refusals:
        complain(f"artifact attest: {line}")
    if found.unknown_cells:
        cells = ", ".join(found.unknown_cells)
        print(cut(one_line(f"left out: {store.url} does not contain the files of {cells}")))
    for line in found.undecided:
        print(cut(one_line(f"not attested, try again: {line}")))
    if found.verdicts and not found.refusals:
        return 0
    if not (found.verdicts or found.refusals or found.undecided):
        complain("artifact attest: none of the verdicts is about a file in the store")
    return TRY_AGAIN if found.undecided and not found.refusals else UNREADABLE


# ``binary-checks artifact verify``: compare a store's content with the store's records.

_VERIFY = "Check every file, statement, index and gated channel of a store."
_VERIFY_OPTIONS: Options = {
    "--channel": {
        **_CHANNELS,
        "help": "only members of this channel (repeatable; default: the whole store)",
    },
    "--policy": {
        "metavar": "FILE",
        "help": "trust the keys and gates of this policy instead of those in the store",
    },
    "--cells": {
        "metavar": "FILE",
        "help": "the matrix: files of cells with a GPU stage need a verdict of that stage, even "
        "if the records of the files do not name the stage",
    },
}


def run_verify(arguments: Sequence[str]) -> int:
    """Verify a store; return 1 if content is wrong, 6 if it cannot be read."""
    options = parse_options("verify", _VERIFY, _VERIFY_OPTIONS, arguments)
    today = datetime.now(timezone.utc).date()
    policy = read_policy(Path(options.policy), today) if options.policy else None
    cells = read_cells(Path(options.cells)).cells if options.cells else ()
    store = open_store(options.store)
    try:
        scope = read_scope(store, [*dict.fromkeys(options.channel)], policy, cells)
    except RecordError as error:  # a damaged withdrawal must not be ignored
        print(cut(one_line(f"{error}")))
        print("1 fault; nothing else was verified")
        return UNREADABLE
    wrong = unknown = 0
    for each in verify(scope):
        wrong, unknown = wrong + each.looked, unknown + (not each.looked)
        word = "" if each.looked else "not verified: "
        print(cut(one_line(f"{word}{each.about}: {each.text}")), flush=True)
    print(_format_scope(scope))
    if wrong or unknown:
        print(f"{count(wrong, 'fault')}, {unknown:,} not verified")
    return UNREADABLE if wrong else TRY_AGAIN if unknown else 0


def _format_scope(scope: VerifyScope) -> str:
    """Describe what was verified."""
    channels = (
        f"{name} ({count(len(view.members), 'member')}"
        f"{'' if is_indexed(scope.store, name) else ', without an index'})"
        for name, view in scope.channels.items()
    )
    by = "the store's own gates; --policy FILE verifies with keys that you trust"
    if scope.policy:
        gated = ", ".join(sorted(scope.policy.gates.keys() & scope.channels.keys())) or "none"
        by = f"gates of {scope.policy.source}: {gated}"
    size = format_size(sum(each.size for each in scope.artifacts.values()))
    files = f"{count(len(scope.artifacts), 'file')}, {size}"
    line = f"{scope.store.url}: verified {files}; channels: {', '.join(channels) or 'none'}; {by}"
    return one_line(line)
