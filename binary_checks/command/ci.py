"""``binary-checks ci``: write and check the files of CI systems, and run a stage of a job."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser, complain
from binary_checks.command.cells import read_matrix
from binary_checks.errors import FIT, MISUSED, PROBLEMS
from binary_checks.fleet.cells import DEFAULT_FILE
from binary_checks.fleet.ci.ci_settings import SYSTEMS
from binary_checks.fleet.ci.generated_files import (
    FileChange,
    apply_changes,
    find_changes,
    write_files,
)
from binary_checks.fleet.ci.pipeline import list_warnings, make_pipeline
from binary_checks.fleet.ci.running_stages import CHAIN, NIGHT, StageRun
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

_MATRIX = f"the matrix (default: {DEFAULT_FILE})"


def run_write(arguments: Sequence[str]) -> int:
    """Write all files of a matrix, or none of them; return the exit status."""
    parser = _make_parser(
        "write",
        "Write the files by which CI systems run a matrix, from its [ci] and [[runners]] tables.",
    )
    _, files, changes, status = _compare(parser.parse_args(arguments))
    apply_changes(Path(), changes)
    for each in changes:
        print(one_line(f"{each.path}: {'removed' if each.fault == 'left over' else 'written'}"))
    if not changes:
        print(f"{count(files, 'file')} up to date")
    return status


def run_check(arguments: Sequence[str]) -> int:
    """Compare the files; return 0 if all are equal, else 1."""
    parser = _make_parser(
        "check", "Report CI files that differ from what `binary-checks ci write` would write."
    )
    options = parser.parse_args(arguments)
    source, files, changes, status = _compare(options)
    for each in changes:
        print(one_line(f"{each.path}: {each.fault}"))
    if not changes:
        print(f"{count(files, 'file')} up to date with {source}")
        return status
    print(f"{len(changes)} of {files} files drifted; next: binary-checks ci write {options.file}")
    return status or PROBLEMS


def _make_parser(action: str, purpose: str) -> SubcommandParser:
    """Return a parser with the options that writing and checking share."""
    parser = SubcommandParser(prog=f"binary-checks ci {action}", description=purpose)
    add = parser.add_argument
    add(
        "file",
        metavar="CELLS.toml",
        type=Path,
        nargs="?",
        default=Path(DEFAULT_FILE),
        help=_MATRIX,
    )
    add(
        "--system",
        choices=SYSTEMS,
        action="append",
        default=[],
        help="only the files of this system (repeatable; default: those of [ci])",
    )
    return parser


def _compare(options: argparse.Namespace) -> tuple[str, int, list[FileChange], int]:
    """Return the matrix, the number of files, those that differ, and the exit status.

    The status is not 0 if a CI system lacks a machine. Raises ProfileError.
    """
    pipeline = make_pipeline(read_matrix(options.file), Path(), options.system)
    for warning in list_warnings(pipeline, Path()):
        print(cut(one_line(f"warning: {warning}")), file=sys.stderr)
    files, refused = write_files(pipeline)
    for system, reason in refused.items():
        complain(f"{reason} (the files of {system} are left unchanged)")
    meant = [system for system in options.system or SYSTEMS if system not in refused]
    changes = find_changes(Path(), files, source=pipeline.source, systems=meant)
    return pipeline.source, len(files), [*changes], MISUSED if refused else FIT


def run_stage(arguments: Sequence[str]) -> int:
    """Run the same steps as a job of CI, also on a local machine; return the exit status."""
    parser = SubcommandParser(
        prog="binary-checks ci stage",
        description="Run one stage of a cell in the root of the repository: build fills dist/, "
        "test and gpu judge it, publish stores it. For a night: plan, smoke (cells on the CPU), "
        "smoke-gpu, collect.",
    )
    add = parser.add_argument
    add("stage", choices=(*CHAIN, *NIGHT), help="the stage")
    add(
        "cell",
        metavar="CELL",
        nargs="*",
        help="the id of a cell, several for smoke and smoke-gpu (default: $CELL)",
    )
    add("--cells", metavar="FILE", type=Path, default=Path(DEFAULT_FILE), help=_MATRIX)
    options = parser.parse_args(arguments)
    named = options.cell or [os.environ.get("CELL", "")]
    ids = [word for text in named for word in text.split()]  # ids contain no spaces
    return StageRun(read_matrix(options.cells), complain).run(options.stage, ids)
