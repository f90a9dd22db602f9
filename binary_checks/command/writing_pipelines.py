"""``binary-checks ci write``: all files of CI systems of a matrix, or none of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Container, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.command import SubcommandParser, complain, suggest
from binary_checks.command.cells import read_matrix
from binary_checks.errors import FIT, MISUSED, ProfileError
from binary_checks.fleet.cells.cells_file import DEFAULT_FILE
from binary_checks.fleet.ci.ci_settings import SYSTEMS
from binary_checks.lines import cut, one_line
from binary_checks.reports.verdict_texts import count

if TYPE_CHECKING:
    from binary_checks.fleet.ci.generated_files import RenderedFiles
    from binary_checks.fleet.ci.pipeline import Pipeline


_PURPOSE = (
    "Write the files with which CI systems run a matrix, from its [ci] and [[runners]] tables."
)


def run(arguments: Sequence[str]) -> int:
    """Write them; returns the exit status."""
    from binary_checks.fleet.ci.generated_files import write_all

    parser = make_parser("write", _PURPOSE)
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
    """The options that writing and checking have in common."""
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
    """The pipeline, its files, and the exit status: other than 0 if a system lacks a machine.

    Raises ProfileError.
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
        complain(f"{reason} (the files of {system} are left as they are)")
    return pipeline, rendered, MISUSED if rendered.refused else FIT


def places_of(systems: Sequence[str], refused: Container[str]) -> list[str]:
    """Where files may be left over: of the systems that are named, else of all."""
    from binary_checks.fleet.ci.generated_files import PLACES

    meant = [system for system in systems or SYSTEMS if system not in refused]
    return [place for system in meant for place in PLACES[system]]
