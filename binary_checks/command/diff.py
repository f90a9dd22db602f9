"""Comparison of two builds of one project: the differences that matter to users."""

from __future__ import annotations

import argparse
import gzip
import io
import sys
import zlib
from collections.abc import Sequence
from datetime import date, datetime, timezone
from pathlib import Path

from packaging.version import InvalidVersion, Version

from binary_checks.command import SubcommandParser, complain, guard, suggest
from binary_checks.differences import GAP, compare, load_differences
from binary_checks.documents.builds import read_build, read_result_build
from binary_checks.errors import NotApplicable, ProfileError, Unavailable
from binary_checks.model import (
    BinaryConfiguration,
    Build,
    BuildComparison,
    Linkage,
    LinkedLibraries,
    Package,
    Severity,
)
from binary_checks.profile import KnownProblem, load_known_list

_PURPOSE = "Compare two builds of one project: what breaks, changes or is new for its users."
_SIDES = (
    "a package as for `inspect`, a facts document (.json, .json.gz), a result document, or "
    "store:CELL@DATE (store:CELL is the last good night)"
)
_DIFFERENT = 1
_STORED = "store:"
_HEAD = 200  # bytes at the beginning of a document that identify it


def run(arguments: Sequence[str]) -> int:
    """Compare two builds; return the exit status."""
    return guard(lambda: _compare(_options().parse_args(arguments)))


def _compare(options: argparse.Namespace) -> int:
    known = _load_known(options.known)
    old, new = _read(options.old, options), _read(options.new, options)
    comparison = compare(old, new, known=known, today=date.today())
    _doubt_order(old, new)
    _write(comparison, options)
    return _DIFFERENT if options.fail_on and _fails(comparison, options.fail_on) else 0


def _fails(comparison: BuildComparison, least: str) -> bool:
    """Return whether an unaccepted difference or gap has at least this level."""
    order = list(Severity)
    grave = order[: order.index(Severity(least)) + 1]
    lines = [line for line in comparison.lines if line.severity in grave and not line.accepted]
    return bool(lines) or any(not gap.accepted for gap in comparison.not_compared)


def _doubt_order(old: Build, new: Build) -> None:
    """Warn if the old build has the newer version."""
    try:
        turned = Version(old.package.version) > Version(new.package.version)
    except InvalidVersion:
        return
    if turned:
        versions = f"OLD is {old.package.version}, NEW is {new.package.version}"
        complain(f"{versions}, which is older: the order is `diff OLD NEW`")


def _load_known(path: str | None) -> tuple[KnownProblem, ...]:
    if path is None:
        return ()
    listed = load_known_list(Path(path), path)
    if fault := listed.find_fault(datetime.now(timezone.utc)):
        complain(f"--known {path}: {fault}: nothing counts as accepted")
        return ()
    entries = tuple(each for each in listed.entries if each.holds_in(None))
    ids = {each.id for each in load_differences()} | {GAP}
    for entry in entries:
        if entry.check not in ids:
            hint = suggest(entry.check, ids)
            raise ProfileError(f"{entry.listed}: {entry.check!r} is not a difference{hint}")
    return entries


def _read(name: str, options: argparse.Namespace) -> Build:
    """Read one of the two builds, from a package or a document."""
    if name.startswith(_STORED):
        from binary_checks.fleet.stored_nights import read_stored_build

        return read_stored_build(options.store, name.removeprefix(_STORED))
    kind = _document_kind(Path(name))
    if kind == "result":
        return read_result_build(Path(name), name)
    return read_build(Path(name), name) if kind else _examine(name, options)


def _document_kind(path: Path) -> str:
    """Return the kind of a document: "facts", "result" or "" if it is neither."""
    if not path.name.endswith((".json", ".json.gz")) or not path.is_file():
        return ""
    try:
        with path.open("rb") as file:
            head = (
                gzip.GzipFile(fileobj=file).read(_HEAD)
                if path.suffix == ".gz"
                else file.read(_HEAD)
            )
    except (OSError, EOFError, zlib.error):
        return "facts"  # an error is reported when it is read
    return "result" if b'"binary-checks/result/' in head else "facts"


def _examine(name: str, options: argparse.Namespace) -> Build:
    """Read a package and simulate its loader; none of its code runs."""
    from binary_checks.examination.run import examine
    from binary_checks.sources import require_named

    require_named(name, Path.cwd())
    with examine(name, companions=options.companions) as facts:
        found, gaps = facts.get(Package), []
        linkage = None
        try:
            linkage = facts.get(Linkage)
        except NotApplicable:
            pass
        except Unavailable as error:
            gaps.append(f"without linkage: {error}")
        algorithm, _, digest = facts.source.identity().partition(" ")
        return Build(
            label=facts.file_name,
            package=found,
            sha256=digest if algorithm == "sha256" else "",
            linkage=linkage,
            configuration=facts.get(BinaryConfiguration),
            linked=facts.get(LinkedLibraries),
            gaps=tuple(gaps),
        )


def _write(comparison: BuildComparison, options: argparse.Namespace) -> None:
    if options.json:
        from binary_checks.documents.builds import write_diff

        sys.stdout.writelines(write_diff(comparison))
        return
    from binary_checks.reports.build_differences import write_markdown, write_text

    if options.markdown and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for line in (write_markdown if options.markdown else write_text)(comparison):
        print(line)


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="binary-checks diff",
        description=_PURPOSE,
        epilog="exit code: 0 done, 1 a difference that --fail-on names, or an unreadable package, "
        "4 wrong usage, 6 a network or a store failed: try again",
    )
    add = parser.add_argument
    add("old", metavar="OLD", help=_SIDES)
    add("new", metavar="NEW", help="the new build, in one of the same forms")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="as a document, binary-checks/diff/1")
    shape.add_argument("--markdown", action="store_true", help="for a pull request")
    add(
        "--fail-on",
        choices=[Severity.BREAK.value, Severity.CHANGE.value],
        help="exit with 1 if a difference is at least this severe, or cannot be determined",
    )
    add(
        "--known",
        metavar="FILE",
        help="a file of accepted differences, in the format of known problems",
    )
    add("--store", metavar="URL", help="the store for store:CELL")
    add(
        "--with",
        dest="companions",
        metavar="PATH",
        action="append",
        default=[],
        help="a required package, or a folder of packages (repeatable)",
    )
    return parser
