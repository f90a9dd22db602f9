"""``binary-checks ci``: write and check the files of CI systems, and run a stage of a job."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.command import SubcommandParser, complain, suggest
from binary_checks.command.cells import read_matrix
from binary_checks.errors import FIT, MISUSED, PROBLEMS, ProfileError
from binary_checks.fleet.cells import DEFAULT_FILE
from binary_checks.fleet.ci.ci_settings import SYSTEMS
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

if TYPE_CHECKING:
    from binary_checks.fleet.ci.generated_files import RenderedFiles
    from binary_checks.fleet.ci.pipeline import Pipeline


# ``binary-checks ci write``: write all files of a matrix for CI systems, or none of them.

_WRITE = "Write the files by which CI systems run a matrix, from its [ci] and [[runners]] tables."


def run_write(arguments: Sequence[str]) -> int:
    """Write the files; return the exit status."""
    from binary_checks.fleet.ci.generated_files import write_all

    parser = make_parser("write", _WRITE)
    parser.add_argument(
        "--force", action="store_true", help="also replace files that this command did not write"
    )
    options = parser.parse_args(arguments)
    pipeline, rendered, status = render(options)
    changes = write_all(
        options.folder,
        rendered.files,
        source=pipeline.source,
        places=places_of(options.system, rendered.refused),
        force=options.force,
    )
    for what, paths in (("written", changes.written), ("removed", changes.removed)):
        for path in paths:
            print(one_line(f"{path}: {what}"))
    if not changes.written and not changes.removed:
        print(f"{count(len(changes.kept), 'file')} up to date")
    return status


def make_parser(action: str, purpose: str) -> SubcommandParser:
    """Return a parser with the options that writing and checking share."""
    parser = SubcommandParser(prog=f"binary-checks ci {action}", description=purpose)
    add = parser.add_argument
    add(
        "file",
        metavar="CELLS.toml",
        type=Path,
        nargs="?",
        default=Path(DEFAULT_FILE),
        help=f"the matrix (default: {DEFAULT_FILE})",
    )
    add(
        "--system",
        metavar="NAME",
        action="append",
        default=[],
        help=f"only this CI system (repeatable): {', '.join(SYSTEMS)} (default: those of [ci])",
    )
    add(
        "--folder",
        metavar="FOLDER",
        type=Path,
        default=Path(),
        help="the root of the repository (default: the current folder)",
    )
    return parser


def render(options: argparse.Namespace) -> tuple[Pipeline, RenderedFiles, int]:
    """Return the pipeline, its files, and the exit status.

    The status is not 0 if a CI system lacks a machine. Raises ProfileError.
    """
    for system in options.system:
        if system not in SYSTEMS:
            known = ", ".join(SYSTEMS)
            raise ProfileError(
                f"ci: --system {system!r:.40} is not one of: {known}{suggest(system, SYSTEMS)}"
            )
    from binary_checks.fleet.ci.generated_files import write_files
    from binary_checks.fleet.ci.pipeline import list_missing, make_pipeline

    if not options.folder.is_dir():
        raise ProfileError(f"ci: --folder: {options.folder} is not a folder")
    matrix = read_matrix(options.file)
    pipeline = make_pipeline(matrix, options.folder, options.system)
    for warning in (*pipeline.warnings, *list_missing(pipeline, options.folder)):
        print(cut(one_line(f"warning: {warning}")), file=sys.stderr)
    rendered = write_files(pipeline)
    for system, reason in rendered.refused.items():
        complain(f"{reason} (the files of {system} are left unchanged)")
    return pipeline, rendered, MISUSED if rendered.refused else FIT


def places_of(systems: Sequence[str], refused: Container[str]) -> list[str]:
    """Return the folders with files that may be obsolete: for the named systems, or for all."""
    from binary_checks.fleet.ci.generated_files import PLACES

    meant = [system for system in systems or SYSTEMS if system not in refused]
    return [place for system in meant for place in PLACES[system]]


# ``binary-checks ci check``: compare the files of CI systems with the output of `ci write`.

_CHECK = "Report CI files that differ from what `binary-checks ci write` would write."


def run_check(arguments: Sequence[str]) -> int:
    """Compare the files; return 0 if all are equal, else 1."""
    from binary_checks.fleet.ci.generated_files import find_drift

    options = make_parser("check", _CHECK).parse_args(arguments)
    pipeline, rendered, status = render(options)
    files, places = rendered.files, places_of(options.system, rendered.refused)
    drifted = [*find_drift(options.folder, files, source=pipeline.source, places=places)]
    for each in drifted:
        print(one_line(f"{each.path}: {each.fault}"))
        for line in each.lines:
            print(f"  {one_line(line)}")
    if not drifted:
        print(f"{count(len(files), 'file')} up to date with {pipeline.source}")
        return status
    print(
        f"{len(drifted)} of {len(files)} files drifted; next: binary-checks ci write {options.file}"
    )
    return status or PROBLEMS


# ``binary-checks ci stage``: run the same steps as a job of CI, also on a local machine.

_STAGE = (
    "Run one stage of a cell in the root of the repository: build fills dist/, test and gpu judge "
    "it, publish stores it. For a night: plan, smoke (cells on the CPU), smoke-gpu, collect."
)


def run_stage(arguments: Sequence[str]) -> int:
    """Run the stage; return the exit status."""
    from binary_checks.fleet.ci.running_stages import CHAIN, NIGHT, StageRun

    parser = SubcommandParser(prog="binary-checks ci stage", description=_STAGE)
    parser.add_argument("stage", choices=(*CHAIN, *NIGHT), help="the stage")
    parser.add_argument(
        "cell",
        metavar="CELL",
        nargs="*",
        help="the id of a cell, several for smoke and smoke-gpu (default: $CELL)",
    )
    parser.add_argument(
        "--cells",
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"the matrix (default: {DEFAULT_FILE})",
    )
    options = parser.parse_args(arguments)
    named = options.cell or [os.environ.get("CELL", "")]
    ids = [word for text in named for word in text.split()]  # ids contain no spaces
    return StageRun.of(read_matrix(options.cells), complain).run(options.stage, ids)
