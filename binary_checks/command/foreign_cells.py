"""``binary-checks cells --from``: a matrix that a project keeps elsewhere, as cells."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cell import Cell
from binary_checks.fleet.cells.axis_values import demand_consistent, demand_value
from binary_checks.fleet.cells.cells_file import parse_cells
from binary_checks.fleet.cells.foreign_matrix import ForeignMatrix, read_text
from binary_checks.fleet.cells.matrix import Matrix
from binary_checks.lines import cut, one_line

_FORMS = ("cibuildwheel", "pytorch")


def add_foreign(parser: argparse.ArgumentParser) -> None:
    """The options that `read_foreign` reads."""
    parser.add_argument(
        "--from",
        dest="foreign",
        metavar="FORM:FILE",
        help="read another tool's matrix: cibuildwheel:FILE or pytorch:FILE (- is standard input)",
    )
    parser.add_argument("--project", metavar="NAME", help="with --from: the project that is built")
    parser.add_argument(
        "--system",
        metavar="SYSTEM-ARCH",
        default="",
        help="with --from: for entries that name none, as linux-x86_64",
    )


def demand_foreign(options: argparse.Namespace) -> None:
    """Refuse options that do not go together. Raises ProfileError."""
    if options.foreign and options.file:
        raise ProfileError(f"cells: {options.file} and --from: name one of them")
    for name in ("toml", "project", "system"):
        if getattr(options, name) and not options.foreign:
            raise ProfileError(f"cells: --{name} goes with --from")


def read_foreign(options: argparse.Namespace) -> tuple[str, Matrix]:
    """The text of a cells.toml that says what is said there, and its matrix. Raises ProfileError.

    What is left out is said on standard error, too.
    """
    from binary_checks.fleet.cells.cells_toml import write_toml

    form, _, file = options.foreign.partition(":")
    if form not in _FORMS or not file:
        raise ProfileError(
            f"--from {options.foreign:.80}: not FORM:FILE; forms: {', '.join(_FORMS)}"
        )
    matrix = _read_form(form, file, options)
    for note in matrix.notes:
        print(cut(one_line(f"warning: {options.foreign}: {note}")), file=sys.stderr)
    text = write_toml(matrix, options.foreign)
    return text, parse_cells(text.encode(), Path(options.foreign))


def _read_form(form: str, file: str, options: argparse.Namespace) -> ForeignMatrix:
    named = f"{form}:{file}"
    text = read_text(file, named)
    if form == "pytorch":
        from binary_checks.fleet.cells.pytorch_matrix import read_pytorch

        project = demand_value("project", options.project or "torch", "--project")
        return read_pytorch(text, named, project, _demand_host(options.system))
    from binary_checks.fleet.cells.cibuildwheel_identifiers import read_identifiers

    if not options.project:
        raise ProfileError(f"--from {named}: identifiers name no project; add --project NAME")
    return read_identifiers(text, named, demand_value("project", options.project, "--project"))


def _demand_host(text: str) -> str:
    if text:
        system, _, architecture = text.partition("-")
        demand_value("system", system, "--system")
        cell = Cell(id="", project="-", system=system, architecture=architecture)
        demand_consistent(cell, "--system")
    return text
