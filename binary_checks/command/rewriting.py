"""Makes a report of a run again from its result document: the same bytes that the run wrote."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from binary_checks import reports
from binary_checks.command import MISUSED, SubcommandParser, complain
from binary_checks.documents.result_reader import read_results
from binary_checks.errors import GatherError, ProfileError
from binary_checks.reports.writing import (
    TRY_AGAIN,
    Destination,
    demand_no_folder,
    find_report,
    write_to,
)

_PURPOSE = "Make another report of a run from its result document, as the run itself wrote it."


def run(arguments: Sequence[str]) -> int:
    """Write another report of a run from its result document."""
    try:
        _rewrite(_read_options(arguments))
    except ProfileError as error:
        complain(str(error))
        return MISUSED
    except GatherError as error:
        complain(str(error))
        return TRY_AGAIN
    return 0


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks report", description=_PURPOSE)
    parser.add_argument("document", metavar="RESULT.json", help="written by --binary-report json")
    names = ", ".join(report.name for report in reports.REPORTS if not report.of_facts)
    parser.add_argument("--format", required=True, metavar="FORMAT", help=names)
    parser.add_argument("--output", metavar="FILE", help="where to write it, instead of stdout")
    return parser.parse_args(arguments)


def _rewrite(options: argparse.Namespace) -> None:
    report = find_report(options.format)
    if report.of_facts:
        raise ProfileError(f"report: a result document has no {report.name}")
    found = read_results(Path(options.document), options.document)
    if options.output is not None:
        path = Path(options.output)
        demand_no_folder("--output", options.output, path)
        write_to(Destination(option="--output", report=report, path=path), found)
        return
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    report.write(found, sys.stdout)
