"""``binary-checks cells``: the cells of a matrix, as a table for people or JSON for machines."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path

from binary_checks.command import SubcommandParser, guard, suggest
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
    parse_cells,
    read_cells,
    read_identifiers,
    read_one_off,
    require_value,
    tabulate_cells,
    write_cells,
)
from binary_checks.fleet.ci.ci_settings import HOSTED
from binary_checks.fleet.night import Cell
from binary_checks.options import OPTIONS, Program
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

_OURS = tuple(f"--{name}" for name in OPTIONS)
_PURPOSE = (
    "List the cells of a matrix: the packages judged every night, and where they are published."
)
_WIDTH = 80
_LEAST = 24  # least width of the last column
_RUN = {"place": "", "profile": "", "options": (), "timeout": Cell(id="", project="").timeout}
"""The usual settings of a cell's run; only unusual settings are listed."""


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
    """Print the requested list; return the exit status."""
    return guard(lambda: _list(_read_options(arguments)))


def _list(options: argparse.Namespace) -> int:
    if options.ci:
        return _list_jobs(options)
    options.tier = options.tier or NIGHTLY
    one_off = ask_one_off(options)
    if options.foreign:
        text, matrix = read_foreign(options)
        if options.toml:
            print(text, end="")
            return 0
    else:
        matrix = read_matrix(options.file or Path(DEFAULT_FILE))
    matrix = one_off.enable(matrix)
    cells = choose_cells(matrix.cells, where=options.where, one_off=one_off, part=options.shard)
    if options.json:
        print(write_cells(matrix, cells, one_off))
    elif options.ids:
        for cell in cells:
            print(cell.id)
    else:
        for line in _describe(matrix, cells):
            print(one_line(line))
    for warning in () if options.json else matrix.warnings:
        print(cut(one_line(f"warning: {warning}")), file=sys.stderr)
    return 0


def _list_jobs(options: argparse.Namespace) -> int:
    """Print the jobs of this run for a CI system; the CI event determines the tier."""
    from binary_checks.fleet.ci.ci_settings import read_ci
    from binary_checks.fleet.ci.generated_files import format_jobs
    from binary_checks.fleet.ci.pipeline import CiRun, choose_jobs, find_run, make_pipeline

    matrix = read_matrix(options.file or Path(DEFAULT_FILE))
    branch = read_ci(matrix).branch
    begun = find_run(options.ci, os.environ, branch)
    options.tier = options.tier or begun.tier
    one_off = ask_one_off(options)
    enabled = one_off.enable(matrix)
    cells = choose_cells(enabled.cells, where=options.where, one_off=one_off, part=options.shard)
    pipeline = make_pipeline(enabled, Path(), [options.ci])
    chosen = [cell.id for cell in cells]
    run = CiRun(event=begun.event, tier=one_off.tier)
    jobs = choose_jobs(pipeline, options.ci, chosen, run)
    print(format_jobs(jobs), end="")
    return 0


def add_one_off(parser: argparse.ArgumentParser) -> None:
    """Add the options that `ask_one_off` reads."""
    add = parser.add_argument
    add(
        "--tier",
        choices=TIERS,
        default=NIGHTLY,
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
    found = read_one_off(os.environ, only=options.only, also=options.also, tier=options.tier)
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
        "--toml", action="store_true", help="with --from: print the equivalent cells.toml"
    )
    add_foreign(parser)
    parser.set_defaults(tier="")
    options = parser.parse_args(arguments)
    require_foreign_options(options)
    return options


def _describe(matrix: Matrix, cells: Sequence[Cell]) -> Iterator[str]:
    """Yield a table for each project, how cells run, and the excluded cells with reasons."""
    gpu = sum(cell.gpu for cell in cells)
    of = f"{len(cells):,} of " if len(cells) != len(matrix.cells) else ""
    yield f"{matrix.source}: {of}{count(len(matrix.cells), 'cell')}, {gpu} with a GPU stage (+)"
    for project in dict.fromkeys(cell.project for cell in cells):
        yield ""
        own = [cell for cell in cells if cell.project == project]
        yield from _describe_project(project, own, matrix.axes)
    yield ""
    yield from _describe_runs(cells)
    for each in matrix.left_out:
        until = f", until {each.expires}" if each.expires else ""
        if not each.expired:
            message = f"{each.when} ({count(each.cells, 'cell')}{until}): {each.reason}"
            yield from _wrap("left out: ", message)


def _describe_project(project: str, cells: Sequence[Cell], used: Sequence[str]) -> Iterator[str]:
    """Yield the values that all cells of a project share, then a table of the values that differ.

    Each row lists the values of the last axis for one combination of the other axes.
    """
    table = tabulate_cells(cells, used)
    same = " ".join(f"{axis}={value}" for axis, value in table.same.items())
    yield from _wrap(f"{project}: ", f"{count(len(cells), 'cell')}  {same}")
    if not table.axes:
        return
    found = {table.axes[:-1]: table.axes[-1:], **table.rows}
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    for key, values in found.items():
        head = "".join(f"{value.ljust(width)}  " for value, width in zip(key, widths, strict=True))
        yield from _wrap(f"  {head}", " ".join(values))


def _wrap(head: str, text: str) -> Iterator[str]:
    """Yield the text after its head in lines of 80 columns, or below a head that is too long."""
    indent = len(head) if len(head) <= _WIDTH - _LEAST else 4
    lines = textwrap.wrap(text, _WIDTH - indent, break_on_hyphens=False) or [""]
    if indent != len(head):
        yield head.rstrip()
        yield from (" " * indent + line for line in lines)
        return
    yield (head + lines[0]).rstrip()
    yield from (" " * indent + line for line in lines[1:])


def _describe_runs(cells: Sequence[Cell]) -> Iterator[str]:
    """Yield unusual settings of runs, each with the number of cells."""
    found = [(settings, cell) for cell in cells if (settings := _format_run(cell))]
    for settings, alike in groupby(sorted(found, key=lambda pair: pair[0]), lambda pair: pair[0]):
        yield from _wrap("run: ", f"{settings} ({count(len([*alike]), 'cell')})")


def _format_run(cell: Cell) -> str:
    values = {name: getattr(cell, name) for name in _RUN if getattr(cell, name) != _RUN[name]}
    if "options" in values:
        values["options"] = " ".join(cell.options)
    if "timeout" in values:
        values["timeout"] = f"{cell.timeout:g} s"
    return ", ".join(f"{name} {value}" for name, value in values.items())


# ``binary-checks cells --from``: the matrix that cibuildwheel builds, as cells.

_FORM = "cibuildwheel"
_LARGEST = 16 << 20  # bytes of a list of identifiers


def add_foreign(parser: argparse.ArgumentParser) -> None:
    """Add the options that `read_foreign` reads."""
    parser.add_argument(
        "--from",
        dest="foreign",
        metavar=f"{_FORM}:FILE",
        help=f"read what `{_FORM} --print-build-identifiers` prints (- is standard input)",
    )
    parser.add_argument("--project", metavar="NAME", help="with --from: the built project")


def require_foreign_options(options: argparse.Namespace) -> None:
    """Raise ProfileError for options that cannot be combined."""
    if options.foreign and options.file:
        raise ProfileError(f"cells: {options.file} and --from: give only one of them")
    for name in ("toml", "project"):
        if getattr(options, name) and not options.foreign:
            raise ProfileError(f"cells: --{name} can be used only with --from")


def read_foreign(options: argparse.Namespace) -> tuple[str, Matrix]:
    """Return the text of a cells.toml with the builds that ``--from`` names, and its matrix.

    Builds that are left out are also reported on standard error. Raises ProfileError.
    """
    named = options.foreign
    form, _, file = named.partition(":")
    if form != _FORM or not file:
        raise ProfileError(f"--from {named:.80}: not {_FORM}:FILE")
    text = _read_text(file, named)
    if not options.project:
        raise ProfileError(f"--from {named}: identifiers name no project; add --project NAME")
    project = require_value("project", options.project, "--project")
    built = read_identifiers(text, named, project)
    for note in built.notes:
        print(cut(one_line(f"warning: {named}: {note}")), file=sys.stderr)
    written = built.write_toml(named)
    return written, parse_cells(written.encode(), Path(named))


def _read_text(file: str, named: str) -> str:
    """Return the text of a file, or of standard input for ``-``. Raises ProfileError."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_LARGEST + 1)
    except OSError as error:
        raise ProfileError(f"{named}: {error.strerror}") from None
    except ValueError:
        raise ProfileError(f"{named}: not a valid file name") from None
    if len(content) > _LARGEST:
        raise ProfileError(f"{named}: more than {_LARGEST:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{named}: byte {error.start} is not UTF-8") from None
