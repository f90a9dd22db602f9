"""``binary-checks artifact`` for files that a store keeps by hash: push, pull, find, restore."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from binary_checks.command import (
    MISUSED,
    TRY_AGAIN,
    UNREADABLE,
    SubcommandParser,
    complain,
    read_count,
    status_of,
)
from binary_checks.command.signing_options import read_signing_keys, sign_options
from binary_checks.errors import BinaryChecksError, ProfileError
from binary_checks.fleet.artifacts import (
    FIELDS,
    FILE_AXES,
    INSPECT_LIMIT,
    Artifact,
    FoundArtifact,
    PushEnd,
    PushRequest,
    StatedValues,
    choose,
    format_nearest,
    keep_latest,
    label_artifacts,
    list_channels,
    list_found,
    list_gated,
    list_members,
    list_withdrawn,
    pull,
    push_file,
    read_by_hand,
    read_companions,
    read_given,
    read_selection,
    require_channel,
    restore,
    tabulate_found,
    tell_apart,
    write_found,
    write_index,
)
from binary_checks.fleet.artifacts.artifact import ArtifactRefusedError
from binary_checks.fleet.store import Store, open_store
from binary_checks.knowledge.ci_variables import read_variables
from binary_checks.safe_text import MOST, cut, one_line
from binary_checks.trees.batches import count_cores

Options = Mapping[str, Mapping[str, Any]]
"""Names of an option, or name of a positional argument -> the keywords of argparse."""


def parse_options(action: str, about: str, options: Options, given: Sequence[str]) -> Any:
    """Parse the arguments of an action."""
    parser = SubcommandParser(prog=f"binary-checks artifact {action}", description=about)
    parser.add_store()
    for name, keywords in options.items():
        parser.add_argument(*name.split(), **keywords)
    return parser.parse_args(given)


_REPEATED: Mapping[str, Any] = {"action": "append", "default": []}
WHERE: Options = {
    "--where": {
        **_REPEATED,
        "metavar": "CONDITION",
        "help": f'"variant=cu* linked=static branch=main": globs of {", ".join(FIELDS)}; '
        'the glob "none" selects files without a value',
    },
}
_SELECTION: Options = {
    **WHERE,
    "--channel": {
        **_REPEATED,
        "metavar": "CHANNEL",
        "help": "only members of this channel (repeatable)",
    },
    "--latest": {
        "action": "store_true",
        "help": "only the newest version of each configuration",
    },
}

# ``binary-checks artifact push``: store files with descriptions, and add them to a channel.

_PUSH = "Store files by their SHA-256 with their properties, and add them to a channel."
_PUSH_OPTIONS: Options = {
    "files": {
        "metavar": "FILE",
        "nargs": "+",
        "help": "a package, a library, or an archive of C++ libraries",
    },
    "--channel": {
        **_REPEATED,
        "metavar": "CHANNEL",
        "help": "add the files to this channel (repeatable)",
    },
    "--no-index": {
        "dest": "index",
        "action": "store_false",
        "help": "do not update the channel's index",
    },
    "--commit": {
        "metavar": "HEX",
        "default": "",
        "help": "the full commit that was built (default: from CI, the package or git)",
    },
    "--branch": {
        "metavar": "NAME",
        "default": "",
        "help": "the branch that was built (default: from CI or git)",
    },
    "--pull-request": {
        "metavar": "N",
        "default": "",
        "help": "the pull or merge request that was built (default: from CI)",
    },
    "--set": {
        **_REPEATED,
        "metavar": "AXIS=VALUE",
        "help": "a property that the file does not state, as variant=cu130 (repeatable): "
        f"{', '.join(FILE_AXES)}",
    },
    "--project": {
        "metavar": "NAME",
        "default": "",
        "help": "the project of a library, if its file does not name one",
    },
    "--version": {
        "metavar": "VERSION",
        "default": "",
        "help": "the version of a library, if its file does not name one",
    },
    "--license": {
        **_REPEATED,
        "metavar": "FILE",
        "help": "a license text, stored and pulled with the files (repeatable)",
    },
    "--dependency": {
        **_REPEATED,
        "metavar": "FILE",
        "help": "a library that the files need, stored and pulled with them (repeatable)",
    },
    "-j --jobs": {
        "metavar": "N",
        "type": read_count,
        "help": "files at a time (default: the number of processors)",
    },
    "--timeout": {
        "metavar": "SECONDS",
        "type": float,
        "default": INSPECT_LIMIT,
        "help": f"the time limit for reading one file (default: {INSPECT_LIMIT:g})",
    },
    **sign_options("each artifact.json"),
}
_ORDER = (MISUSED, UNREADABLE, TRY_AGAIN)
"""Exit statuses by precedence: the first that occurs is returned."""
_LONGEST = 86400.0  # seconds


def run_push(arguments: Sequence[str]) -> int:
    """Push files; return the exit status. An error in one file does not stop the others."""
    options = parse_options("push", _PUSH, _PUSH_OPTIONS, arguments)
    request = _read_request(options)
    store = open_store(options.store, make=True)
    statuses = {_print_pushed(path, end, request) for path, end in _push(store, request, options)}
    if options.index and 0 in statuses:
        statuses |= {update_index(store, each) for each in request.channels}
    return next((status for status in _ORDER if status in statuses), 0)


def _read_request(options: argparse.Namespace) -> PushRequest:
    if not 0 < options.timeout <= _LONGEST:
        raise ProfileError(f"push: --timeout: more than 0 and at most {_LONGEST:g} seconds")
    variables = read_variables(os.environ)
    for each in variables.misunderstood:
        complain(f"push: {each}: not understood, and ignored")
    return PushRequest(
        stated=StatedValues(
            by_hand=read_by_hand(options.set),
            variables=variables.claims,
            file_names=tuple(dict.fromkeys(Path(each).name for each in options.files)),
            project=options.project,
            version=options.version,
        ),
        given=read_given(options.commit, options.branch, options.pull_request),
        environment=os.environ,
        folder=Path.cwd(),
        channels=tuple(dict.fromkeys(map(require_channel, options.channel))),
        companions=read_companions(options.license, options.dependency),
        timeout=options.timeout,
        keys=read_signing_keys(options),
    )


def _push(
    store: Store, request: PushRequest, options: argparse.Namespace
) -> Iterator[tuple[Path, PushEnd | BinaryChecksError]]:
    """Push several files at once, each read in a separate process; yield the results in order."""

    def push(path: Path) -> PushEnd | BinaryChecksError:
        try:
            return push_file(store, path, request)
        except BinaryChecksError as error:
            return error

    paths = [Path(each) for each in options.files]
    with ThreadPoolExecutor(options.jobs or count_cores()) as pool:
        try:
            yield from zip(paths, pool.map(push, paths), strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C no further file is begun


def _print_pushed(path: Path, end: PushEnd | BinaryChecksError, request: PushRequest) -> int:
    """Print the result for one file; return the exit status."""
    if isinstance(end, BinaryChecksError):
        text = str(end)
        complain(text if one_line(path.name) in text else f"{path.name}: {text}")
        return status_of(end)
    print(one_line(f"{end.artifact.file_name}: {_format_places(end, request)}"), flush=True)
    for remark in end.remarks:
        complain(f"{end.artifact.file_name}: {remark}")
    return 0


def _format_places(end: PushEnd, request: PushRequest) -> str:
    """Return what the push did in the store and in each channel, and what the artifact is."""
    artifact, states = end.artifact, ["kept" if end.new else "was kept already"]
    for channel in request.channels:
        states.append(f"{'now' if channel in end.joined else 'already'} in {channel}")
    values = [getattr(artifact, axis) for axis in FILE_AXES]
    axes = " ".join((artifact.kind, *filter(None, values)))
    name = f"{artifact.project} {artifact.version}".rstrip()
    origin = " ".join(filter(None, (artifact.branch, artifact.commit[:12])))
    return f"{', '.join(states)} ({name}: {axes}; {origin})"


# ``binary-checks artifact pull``: fetch artifacts with licenses, dependencies and a .meta file.

_PULL = "Fetch artifacts with their licenses, dependencies and metadata (NAME.meta)."
_PULL_OPTIONS: Options = {
    "folder": {
        "metavar": "FOLDER",
        "help": "the folder for the files; it is created if it does not exist",
    },
    **_SELECTION,
    "--all": {"action": "store_true", "help": "fetch all matching artifacts, not just one"},
}


def run_pull(arguments: Sequence[str]) -> int:
    """Fetch the selected artifacts into a folder; return the exit status."""
    options = parse_options("pull", _PULL, _PULL_OPTIONS, arguments)
    store = open_store(options.store)
    found, sound = find_wanted(store, options)
    if not sound:  # the only or the latest artifact is then uncertain
        return TRY_AGAIN
    if not found:
        return UNREADABLE
    if len(found) > 1 and not options.all:
        names, conditions = tell_apart(found)
        complain(
            f"{len(found):,} artifacts match; they differ in {', '.join(names) or 'their bytes'}: "
            "choose one with --where, or take --all"
        )
        for text in conditions[:MOST]:
            complain(text)
        return UNREADABLE
    folder = Path(options.folder)
    written = pull(store, [each.artifact for each in found], folder)
    for each in written:
        print(one_line(str(folder / each)))
    if not written:
        print(one_line(f"{folder}: nothing to fetch, all files are there"))
    return 0


# ``binary-checks artifact find``: list artifacts of a store with their channels.

_FIND = "List the artifacts of a store with their properties and channels."
_FIND_OPTIONS: Options = {
    **_SELECTION,
    "--json": {"action": "store_true", "help": "print a document with all properties"},
    "--verdicts": {
        "action": "store_true",
        "help": "show whether each is untested, failing or passed",
    },
}


def run_find(arguments: Sequence[str]) -> int:
    """List artifacts; return the exit status, which is 1 if there are none."""
    options = parse_options("find", _FIND, _FIND_OPTIONS, arguments)
    store = open_store(options.store)
    found, sound = find_wanted(store, options)
    if options.verdicts:
        labels = label_artifacts(store, [each.artifact.sha256 for each in found])
        found = [replace(each, verdict=labels[each.artifact.sha256]) for each in found]
    if options.json:
        sys.stdout.write(write_found(found))
    elif found:
        _print_table(found)
    if not sound:
        return TRY_AGAIN
    return 0 if found else UNREADABLE


def find_wanted(store: Store, options: argparse.Namespace) -> tuple[list[FoundArtifact], bool]:
    """Return the selected artifacts, and whether all documents could be read.

    If none is selected, print which artifact is closest.
    """
    selection = read_selection(options.where)
    channels = [require_channel(each) for each in options.channel]
    if unknown := sorted({*channels} - {*(known := list_channels(store))}):
        raise ProfileError(
            f"{store.url}: no channel {unknown[0]} (known: {', '.join(known) or 'none'})"
        )
    broken: list[str] = []
    there = list_found(store, channels, broken)
    for line in broken:
        complain(line)
    found = choose(there, selection)
    found = keep_latest(found) if options.latest else found
    if not found:
        where = f"{store.url}: {', '.join(channels)}: " if channels else f"{store.url}: "
        complain(f"{where}no artifact matches; {format_nearest(there, selection)}")
    return found, not broken


def _print_table(found: Sequence[FoundArtifact]) -> None:
    rows = [tuple(map(one_line, row)) for row in tabulate_found(found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())


# ``binary-checks artifact restore``: bring stored files back into a channel.

_RESTORE = "Bring stored files back into a channel without a gate, such as a release candidate."
_RESTORE_OPTIONS: Options = {
    **_SELECTION,
    "--to": {
        "metavar": "CHANNEL",
        "required": True,
        "help": "the channel to which the files return",
    },
    "--dry-run": {"action": "store_true", "help": "show what would be done, but do nothing"},
    "--no-index": {"action": "store_true", "help": "do not update the channel's index"},
}


def run_restore(arguments: Sequence[str]) -> int:
    """Put the selected artifacts into a channel; return the exit status."""
    options = parse_options("restore", _RESTORE, _RESTORE_OPTIONS, arguments)
    channel = require_channel(options.to)
    if not (options.where or options.channel):
        raise ProfileError("artifact restore: say which files: --where, --channel")
    store = open_store(options.store)
    if channel in list_gated(store):
        raise ProfileError(
            f"artifact restore: {channel} has a gate: `artifact promote` adds files to it"
        )
    found, sound = find_wanted(store, options)
    there = {each.sha256 for each in list_members(store, channel)}
    withdrawn = list_withdrawn(store, channel)
    states = []
    for artifact in (each.artifact for each in found):
        state, why = _restore_one(store, channel, artifact, there, dry=options.dry_run)
        if not why and artifact.sha256 in withdrawn:
            why = f"it stays withdrawn from {channel}: {withdrawn[artifact.sha256]}"
        print(cut(one_line(f"{artifact.label}: {state}{f': {why}' if why else ''}")))
        states.append(state)
    indexed = 0
    if _RESTORED in states and not options.no_index:
        indexed = update_index(store, channel)
    if _REFUSED in states or not found:
        return UNREADABLE
    return indexed if sound else TRY_AGAIN


_RESTORED, _REFUSED = "restored", "refused"


def _restore_one(
    store: Store, channel: str, artifact: Artifact, there: Collection[str], *, dry: bool
) -> tuple[str, str]:
    """Return the result for a file, and why it is refused."""
    if artifact.sha256 in there:
        return "there already", ""
    try:
        joined = restore(store, channel, artifact, dry=dry)
    except ArtifactRefusedError as error:
        return _REFUSED, str(error).removeprefix(f"{artifact.label}: ")
    if dry:
        return "would be restored", ""
    return (_RESTORED if joined else "there already"), ""


# Updates of a channel's index after its members have changed.


def update_index(store: Store, channel: str) -> int:
    """Write the index of the members; return 0 if it contains all members, else another status.

    Changes of members are kept even if the index cannot be written.
    """
    try:
        faults = write_index(store, channel).faults
    except BinaryChecksError as error:
        complain(str(error))
        return status_of(error)
    print_index_faults(channel, faults)
    return UNREADABLE if faults else 0


def print_index_faults(channel: str, faults: Sequence[str]) -> None:
    """Print a complaint for each member that is left out because an installer could not read it."""
    for fault in faults[:MOST]:
        complain(f"{channel}: {fault}")
    if len(faults) > MOST:
        complain(f"{channel}: and {len(faults) - MOST:,} more that are not listed")
