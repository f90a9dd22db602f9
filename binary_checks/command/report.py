"""A report made from a run's result document: the same bytes that the run would have written."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from binary_checks import reports
from binary_checks.command import SubcommandParser, guard
from binary_checks.documents.facts import restore
from binary_checks.documents.result import read_results
from binary_checks.errors import ProfileError
from binary_checks.model import RunResult
from binary_checks.reports.writing import Destination, find_report, require_place, write_to

_PURPOSE = "Write another report of a run from its result document."


def run(arguments: Sequence[str]) -> int:
    """Write another report of a run from its result document."""
    return guard(lambda: _rewrite(_read_options(arguments)))


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks report", description=_PURPOSE)
    parser.add_argument(
        "document", metavar="RESULT.json", help="a document written by --report json:FILE"
    )
    names = ", ".join(report.name for report in reports.REPORTS if not report.of_facts)
    parser.add_argument(
        "--format", default="terminal", metavar="FORMAT", help=f"{names} (default: terminal)"
    )
    parser.add_argument(
        "--facts",
        metavar="FILE",
        action="append",
        default=[],
        help="facts of a package, for a format that shows them: html (repeatable)",
    )
    parser.add_argument(
        "--output", metavar="FILE", help="the file to write instead of standard output"
    )
    return parser.parse_args(arguments)


def _find_facts(paths: Iterable[Path], run: RunResult) -> Iterator[tuple[str, Path]]:
    """Yield the node and path of each document. Raises ProfileError for an unknown package."""
    for path in paths:
        stated = restore(path)
        hashes = {stated.sha256, stated.record_sha256} - {""}
        nodes = [each.node for each in run.packages if {each.sha256, each.record_sha256} & hashes]
        if not nodes:
            raise ProfileError(
                f"report: --facts {path}: it describes no package of the result document"
            )
        yield from ((node, path) for node in nodes)


def _rewrite(options: argparse.Namespace) -> int:
    report = find_report(options.format)
    if report.of_facts:
        raise ProfileError(f"report: a result document has no {report.name}")
    if options.facts and not report.uses_facts:
        raise ProfileError(f"report: --facts: {report.name} shows no facts")
    if options.output is not None:
        path = Path(options.output)
        require_place("report: --output", options.output, path)
    found = read_results(Path(options.document), options.document)
    found = replace(found, facts=dict(_find_facts(map(Path, options.facts), found)))
    if options.output is not None:
        write_to(Destination(option="--output", report=report, path=path), found)
        return 0
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    report.write(found, sys.stdout)
    return 0
