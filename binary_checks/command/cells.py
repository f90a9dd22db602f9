"""``binary-checks cells``: the cells of a matrix, as lines for people or JSON for machines."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from binary_checks.command import SubcommandParser, read_input, suggest
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import (
    ALSO,
    CELLS_SCHEMA,
    DEFAULT_FILE,
    NIGHTLY,
    ONLY,
    TIERS,
    Matrix,
    OneOff,
    choose_cells,
    read_cells,
    read_one_off,
    require_value,
    write_cells,
    write_cells_file,
)
from binary_checks.fleet.ci.ci_settings import HOSTED
from binary_checks.fleet.night import DEFAULT_TIMEOUT, Cell
from binary_checks.options import OPTIONS, Program
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

_OURS = tuple(f"--{name}" for name in OPTIONS)
_PURPOSE = (
    "List the cells of a matrix: the packages judged every night, and where they are published."
)
_FOREIGN = "cibuildwheel:FILE"
_LARGEST = 16 << 20  # bytes of a list of identifiers


def read_matrix(path: Path) -> Matrix:
    """Read a matrix, and require that all options for its cells exist. Raises ProfileError.

    Otherwise a mistyped option would only be reported by every cell of a night.
    """
    matrix = read_cells(path)
    for option in dict.fromkeys(each for cell in matrix.cells for each in cell.options):
        name = Program.COMMAND.name_options(option.partition("=")[0])
        # pytest's own options are less similar to ours
        near = get_close_matches(name, _OURS, n=1, cutoff=0.8)
        if name not in _OURS and (near or option.startswith("--binary-")):
            raise ProfileError(f"{path}: run: options: unknown {name}{suggest(name, _OURS)}")
    return matrix


def run(arguments: Sequence[str]) -> int:
    """Print the requested list; return the exit status. Raises ProfileError."""
    options = _read_options(arguments)
    if options.foreign:
        return _write_cells_file(options)
    matrix = read_matrix(options.file or Path(DEFAULT_FILE))
    if options.ci:
        return _list_jobs(matrix, options)
    matrix, cells, one_off = _choose(matrix, options)
    if options.json:
        print(write_cells(matrix, cells, one_off))
        return 0
    for line in [cell.id for cell in cells] if options.ids else _describe(matrix, cells):
        print(one_line(line))
    for warning in matrix.warnings:
        print(cut(one_line(f"warning: {warning}")), file=sys.stderr)
    return 0


def _list_jobs(matrix: Matrix, options: argparse.Namespace) -> int:
    """Print the jobs of this run for a CI system; the CI event determines the tier."""
    from binary_checks.fleet.ci.ci_settings import read_ci
    from binary_checks.fleet.ci.generated_files import format_jobs
    from binary_checks.fleet.ci.pipeline import choose_jobs, find_run, make_pipeline

    begun = find_run(options.ci, os.environ, read_ci(matrix).branch)
    options.tier = options.tier or begun.tier
    matrix, cells, one_off = _choose(matrix, options)
    pipeline = make_pipeline(matrix, Path(), [options.ci])
    chosen = [cell.id for cell in cells]
    jobs = choose_jobs(pipeline, options.ci, chosen, replace(begun, tier=one_off.tier))
    print(format_jobs(jobs), end="")
    return 0


def _choose(matrix: Matrix, options: argparse.Namespace) -> tuple[Matrix, tuple[Cell, ...], OneOff]:
    """Return the matrix with the cells that the run adds, the run's cells, and its requests."""
    one_off = ask_one_off(options)
    matrix = one_off.enable(matrix)
    cells = choose_cells(matrix.cells, where=options.where, one_off=one_off, part=options.shard)
    return matrix, cells, one_off


def _write_cells_file(options: argparse.Namespace) -> int:
    """Print the cells.toml of what cibuildwheel builds."""
    named = options.foreign
    form, _, file = named.partition(":")
    if form != "cibuildwheel" or not file:
        raise ProfileError(f"--from {named:.80}: not {_FOREIGN}")
    project = require_value("project", options.project, "--project")
    content = read_input(file, _LARGEST, named).decode("utf-8-sig", "replace")
    text, left = write_cells_file(content, named, project)
    print(text, end="")
    if left:
        message = f"{len(left):,} left out, which no cell stands for: {', '.join(left)}"
        print(cut(one_line(f"warning: {named}: {message}")), file=sys.stderr)
    return 0


def add_one_off(parser: argparse.ArgumentParser) -> None:
    """Add the options that `ask_one_off` reads."""
    add = parser.add_argument
    add(
        "--tier",
        choices=TIERS,
        default="",
        help="a part of the matrix: pr covers every value, merge every pair of values, nightly "
        "all cells (default)",
    )
    add(
        "--only",
        metavar="CONDITION",
        action="append",
        default=[],
        help=f"in this run, only the matching cells (repeatable; also {ONLY})",
    )
    add(
        "--also",
        metavar="CONDITION",
        action="append",
        default=[],
        help=f"in this run, add the matching cells, even excluded ones (repeatable; also {ALSO})",
    )


def ask_one_off(options: argparse.Namespace) -> OneOff:
    """Return changes that options and environment request for this run only.

    Raises ProfileError.
    """
    tier = options.tier or NIGHTLY
    found = read_one_off(os.environ, only=options.only, also=options.also, tier=tier)
    if found.note:
        print(cut(one_line(f"the environment asks for: {found.note}")), file=sys.stderr)
    return found


def _read_options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = SubcommandParser(prog="binary-checks cells", description=_PURPOSE)
    parser.add_argument(
        "file",
        metavar="CELLS.toml",
        type=Path,
        nargs="?",
        help=f"the matrix (default: {DEFAULT_FILE})",
    )
    parser.add_where()
    add_one_off(parser)
    parser.add_argument(
        "--shard", metavar="I/N", default="1/1", help="the I-th of N equal parts, as 2/4"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--json", action="store_true", help=f"print a document of schema {CELLS_SCHEMA}"
    )
    form.add_argument("--ids", action="store_true", help="print only the ids, one per line")
    form.add_argument(
        "--ci",
        choices=HOSTED,
        help="print the jobs of this run in the form that a CI system reads",
    )
    form.add_argument(
        "--from",
        dest="foreign",
        metavar=_FOREIGN,
        help="print a cells.toml for what `cibuildwheel --print-build-identifiers` prints (- is "
        "standard input)",
    )
    parser.add_argument("--project", metavar="NAME", help="with --from: the built project")
    options = parser.parse_args(arguments)
    if bool(options.foreign) != bool(options.project) or (options.foreign and options.file):
        raise ProfileError("cells: --from and --project NAME go together, without CELLS.toml")
    return options


def _describe(matrix: Matrix, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a line for each cell with its unusual settings, and the excluded cells with reasons."""
    gpu = sum(cell.gpu for cell in cells)
    of = f"{len(cells):,} of " if len(cells) != len(matrix.cells) else ""
    yield f"{matrix.source}: {of}{count(len(matrix.cells), 'cell')}, {gpu} with a GPU stage"
    for cell in cells:
        settings = {
            "place": cell.place,
            "profile": cell.profile,
            "options": " ".join(cell.options),
            "timeout": f"{cell.timeout:g} s" if cell.timeout != DEFAULT_TIMEOUT else "",
        }
        found = [f"{name} {value}" for name, value in settings.items() if value]
        yield f"{cell.id}  {', '.join([*['gpu'] * cell.gpu, *found])}".rstrip()
    for each in matrix.left_out:
        until = f", until {each.expires}" if each.expires else ""
        if not each.expired:
            yield f"left out: {each.when} ({count(each.cells, 'cell')}{until}): {each.reason}"
