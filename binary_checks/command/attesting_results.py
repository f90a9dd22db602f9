"""``binary-checks artifact attest``: keeps what runs found beside the artifacts, signed or not."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from binary_checks.command import TRY_AGAIN, UNREADABLE, SubcommandParser, complain
from binary_checks.command.signing_options import add_signing_options, read_signing_keys
from binary_checks.documents.json_values import DocumentError
from binary_checks.errors import ProfileError
from binary_checks.fleet.artifacts.artifact import FILE_AXES
from binary_checks.fleet.artifacts.attesting import FoundVerdicts, take_night, take_results
from binary_checks.fleet.artifacts.axis_claims import read_by_hand
from binary_checks.fleet.artifacts.kept_verdicts import keep_verdict
from binary_checks.fleet.artifacts.verdict import read_time
from binary_checks.fleet.store import Store, open_store
from binary_checks.fleet.stored_nights import choose_night
from binary_checks.lines import cut, one_line

_PURPOSE = (
    "Store the verdicts of result documents, or of a night, beside the artifacts they are about."
)


def run(arguments: Sequence[str]) -> int:
    """Keep verdicts; returns the exit status."""
    options = _options().parse_args(arguments)
    if bool(options.results) == (options.night is not None):
        raise ProfileError("artifact attest: give result documents, or --night DATE")
    if options.set and options.night is not None:
        raise ProfileError("artifact attest: --set: the cells of a night have their own axes")
    _demand_time(options.ended)
    keys = read_signing_keys(options)
    store = open_store(options.store)
    found = _find(store, options)
    for verdict in found.verdicts:
        new = keep_verdict(store, verdict, keys)
        how = ("signed" if keys else "kept, not signed") if new else "there already"
        where = f" at {', '.join(verdict.places)}" if verdict.places and verdict.ran_on else ""
        print(cut(one_line(f"{verdict.file_name}: {verdict.word}{where}, {verdict.ended}: {how}")))
    for line in found.refusals:
        complain(f"artifact attest: {line}")
    if found.strangers:
        count, first = len(found.strangers), found.strangers[0]
        more = f" and {count - 1:,} more" if count > 1 else ""
        print(one_line(f"left out: {first}{more}: {store.url} does not keep their files"))
    for line in found.undecided:
        print(cut(one_line(f"not attested, try again: {line}")))
    if found.refusals:
        return UNREADABLE
    if found.undecided and not found.verdicts:
        return TRY_AGAIN
    if not found.verdicts:
        complain("artifact attest: none of the verdicts is about a file that the store keeps")
        return UNREADABLE
    return 0


def _find(store: Store, options: argparse.Namespace) -> FoundVerdicts:
    if options.night is not None:
        return take_night(store, choose_night(store, options.night))
    by_hand = read_by_hand(options.set, (*FILE_AXES, "project", "version"))
    return take_results(store, [Path(each) for each in options.results], options.ended, by_hand)


def _demand_time(text: str) -> None:
    try:
        _ = read_time(text) if text else None
    except DocumentError as error:
        raise ProfileError(f"artifact attest: --ended: {error}") from None


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks artifact attest", description=_PURPOSE)
    add = parser.add_argument
    add(
        "results",
        metavar="RESULT",
        nargs="*",
        help="a result document, from --report json:RESULT",
    )
    parser.add_store()
    add("--night", metavar="DATE", help="take all results of this night of the store instead")
    add(
        "--ended",
        metavar="TIME",
        default="",
        help="when the run ended, for results that do not say so",
    )
    add(
        "--set",
        metavar="AXIS=VALUE",
        action="append",
        default=[],
        help="state this of the files of RESULT, as `artifact push --set` did (repeatable)",
    )
    add_signing_options(parser, "each verdict")
    return parser
