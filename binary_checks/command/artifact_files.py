"""``binary-checks artifact push``: keeps files with what they are, and puts them into a channel."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from binary_checks.command import (
    MISUSED,
    TRY_AGAIN,
    UNREADABLE,
    SubcommandParser,
    complain,
    read_count,
    status_of,
)
from binary_checks.command.updating_indexes import update_index
from binary_checks.errors import BinaryChecksError, ProfileError
from binary_checks.fleet.artifacts.artifact import FILE_AXES, Artifact
from binary_checks.fleet.artifacts.axis_claims import StatedAxes, read_by_hand
from binary_checks.fleet.artifacts.deriving import INSPECT_LIMIT, StatedArtifact
from binary_checks.fleet.artifacts.transfers import (
    PushEnd,
    PushRequest,
    push_file,
    read_companions,
    tell_host,
)
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.stored_nights import now
from binary_checks.knowledge.configurations import read_variables
from binary_checks.lines import one_line
from binary_checks.trees.batches import count_cores

_PURPOSE = "Store files by their SHA-256, with what they are, and add them to a channel."
_ORDER = (MISUSED, UNREADABLE, TRY_AGAIN)
"""Of several files the first of these statuses counts."""
_LONGEST = 86400.0  # seconds


def run(arguments: Sequence[str]) -> int:
    """Push files; returns the exit status. What is wrong with one keeps none of the others."""
    options = _options().parse_args(arguments)
    request = _read_request(options)
    store = open_store(options.store, make=True)
    statuses = {_tell(path, end, request) for path, end in _push(store, request, options)}
    if options.index and 0 in statuses:
        statuses |= {update_index(store, each) for each in request.channels}
    return next((status for status in _ORDER if status in statuses), 0)


def _read_request(options: argparse.Namespace) -> PushRequest:
    if not 0 < options.timeout <= _LONGEST:
        raise ProfileError(f"push: --timeout: more than 0 and at most {_LONGEST:g} seconds")
    variables = read_variables(os.environ)
    for each in variables.misunderstood:
        complain(f"push: {each}: not understood, and ignored")
    axes = StatedAxes(
        by_hand=read_by_hand(options.set),
        variables=variables.claims,
        file_names=tuple(dict.fromkeys(Path(each).name for each in options.files)),
    )
    stated = StatedArtifact(
        axes=axes,
        project=options.project,
        version=options.version,
        system=tell_host(),
        pushed=now(),
    )
    return PushRequest(
        stated=stated,
        commit=options.commit,
        environment=os.environ,
        folder=Path.cwd(),
        channels=tuple(dict.fromkeys(options.channel)),
        companions=read_companions(options.license, options.dependency),
        timeout=options.timeout,
    )


def _push(
    store: Store, request: PushRequest, options: argparse.Namespace
) -> Iterator[tuple[Path, PushEnd | BinaryChecksError]]:
    """Push several at once, for each is read by a process of its own; in their order."""

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
            pool.shutdown(wait=False, cancel_futures=True)  # after Ctrl-C none begins


def _tell(path: Path, end: PushEnd | BinaryChecksError, request: PushRequest) -> int:
    """Say what became of one; the exit status."""
    if isinstance(end, BinaryChecksError):
        text = str(end)
        complain(text if one_line(path.name) in text else f"{path.name}: {text}")
        return status_of(end)
    print(one_line(f"{end.artifact.file_name}: {_tell_places(end, request)}"), flush=True)
    for remark in end.remarks:
        complain(f"{end.artifact.file_name}: {remark}")
    return 0


def _tell_places(end: PushEnd, request: PushRequest) -> str:
    kept = "kept" if end.new else "was kept already"
    if request.channels:
        known = [each for each in request.channels if each not in end.joined]
        places = [f"now in {', '.join(end.joined)}"] if end.joined else []
        places += [f"already in {', '.join(known)}"] if known else []
        kept = ", ".join((kept, *places))
    return f"{kept} ({spell_axes(end.artifact)})"


def spell_axes(artifact: Artifact) -> str:
    """What it is, in a few words."""
    values = [getattr(artifact, axis) for axis in FILE_AXES]
    said = " ".join((artifact.kind, *filter(None, values)))
    name = f"{artifact.project} {artifact.version}".rstrip()
    return f"{name}: {said}; {artifact.commit[:12]}"


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact push", description=_PURPOSE)
    add = parser.add_argument
    add(
        "files",
        metavar="FILE",
        nargs="+",
        help="a package, a library, or an archive of C++ libraries",
    )
    parser.add_store("; created if new")
    add(
        "--channel",
        metavar="CHANNEL",
        action="append",
        default=[],
        help="add the files to this channel (repeatable)",
    )
    add("--no-index", dest="index", action="store_false", help="do not update the channel's index")
    add(
        "--commit",
        metavar="HEX",
        default="",
        help="the full commit that was built (default: as CI, the package or git says)",
    )
    add(
        "--set",
        metavar="AXIS=VALUE",
        action="append",
        default=[],
        help="what the file does not say itself, as variant=cu130 (repeatable): "
        f"{', '.join(FILE_AXES)}",
    )
    add(
        "--project",
        metavar="NAME",
        default="",
        help="the project, for a library that does not name it",
    )
    add(
        "--version",
        metavar="VERSION",
        default="",
        help="the version, for a library that does not name it",
    )
    add(
        "--license",
        metavar="FILE",
        action="append",
        default=[],
        help="a license text, stored and pulled with the files (repeatable)",
    )
    add(
        "--dependency",
        metavar="FILE",
        action="append",
        default=[],
        help="a library that they need, stored and pulled with them (repeatable)",
    )
    add("-j", "--jobs", metavar="N", type=read_count, help="files at once (default: processors)")
    add(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=INSPECT_LIMIT,
        help=f"the time limit for reading one file (default: {INSPECT_LIMIT:g})",
    )
    return parser
