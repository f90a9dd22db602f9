"""``binary-checks cells --from``: the matrix that cibuildwheel builds, as cells."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.cells_file import parse_cells
from binary_checks.fleet.cells.cibuildwheel_identifiers import read_identifiers
from binary_checks.fleet.cells.matrix import Matrix, demand_value
from binary_checks.lines import cut, one_line

_FORM = "cibuildwheel"
_LARGEST = 16 << 20  # bytes of a list of identifiers


def add_foreign(parser: argparse.ArgumentParser) -> None:
    """The options that `read_foreign` reads."""
    parser.add_argument(
        "--from",
        dest="foreign",
        metavar=f"{_FORM}:FILE",
        help=f"read what `{_FORM} --print-build-identifiers` prints (- is standard input)",
    )
    parser.add_argument("--project", metavar="NAME", help="with --from: the project that is built")


def demand_foreign(options: argparse.Namespace) -> None:
    """Refuse options that do not go together. Raises ProfileError."""
    if options.foreign and options.file:
        raise ProfileError(f"cells: {options.file} and --from: name one of them")
    for name in ("toml", "project"):
        if getattr(options, name) and not options.foreign:
            raise ProfileError(f"cells: --{name} goes with --from")


def read_foreign(options: argparse.Namespace) -> tuple[str, Matrix]:
    """Return the text of a cells.toml with these cells, and its matrix. Raises ProfileError.

    Builds that are left out are reported on standard error, too.
    """
    named = options.foreign
    form, _, file = named.partition(":")
    if form != _FORM or not file:
        raise ProfileError(f"--from {named:.80}: not {_FORM}:FILE")
    text = _read_text(file, named)
    if not options.project:
        raise ProfileError(f"--from {named}: identifiers name no project; add --project NAME")
    project = demand_value("project", options.project, "--project")
    built = read_identifiers(text, named, project)
    for note in built.notes:
        print(cut(one_line(f"warning: {named}: {note}")), file=sys.stderr)
    written = built.write_toml(named)
    return written, parse_cells(written.encode(), Path(named))


def _read_text(file: str, named: str) -> str:
    """The text of a file, or of standard input for ``-``. Raises ProfileError."""
    try:
        if file == "-":
            content = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_LARGEST + 1)
    except OSError as error:
        raise ProfileError(f"{named}: {error.strerror}") from None
    except ValueError:
        raise ProfileError(f"{named}: not the name of a file") from None
    if len(content) > _LARGEST:
        raise ProfileError(f"{named}: more than {_LARGEST:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ProfileError(f"{named}: byte {error.start} is not UTF-8") from None
