"""``binary-checks ci``: write and check the files of CI systems, and run a stage of a job."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from binary_checks.command import SubcommandParser, complain, suggest
from binary_checks.command.cells import read_matrix
from binary_checks.errors import FIT, MISUSED, PROBLEMS, ProfileError
from binary_checks.fleet.cells import DEFAULT_FILE, parse_cells, read_cells
from binary_checks.fleet.ci.ci_settings import SYSTEMS, has_settings, read_ci, require_install
from binary_checks.profile import quote_toml
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


# ``binary-checks ci init``: add a first [ci] table to a matrix, and write its files.

_INIT = (
    "Append a [ci] table to a matrix, and write the files of its CI systems. A change of cells "
    "does not change these files; after a change of [ci] or [[runners]], run `ci write`."
)
_MANY: Mapping[str, str] = {
    "system": "a CI system, repeatable: " + ", ".join(SYSTEMS),
    "build": "a shell line that puts the files of a cell into dist/, repeatable",
    "install": "a requirement that installs binary-checks in the jobs, repeatable",
    "secret": "the name of a variable with a credential of the store, repeatable",
}
_ONE: Mapping[str, str] = {
    "store": "a folder, or s3://bucket/prefix, for built files and results",
    "built": "the channel for everything that was built",
    "published": "the channel for files that the policy accepts",
    "policy": "the file of the policy",
    "key": "the name of the variable with the private key",
    "deployment": "the environment, context or variable group that has the secrets",
    "branch": "the branch whose pushes run the cells of the tier 'merge' (default: main)",
    "schedule": "the time of the night, as five fields of cron, in UTC (default: 17 3 * * *)",
}
_KEYS = {"system": "systems", "secret": "secrets"}  # the table's keys, for options in the singular


def run_init(arguments: Sequence[str]) -> int:
    """Append the table, and write the files; return the exit status."""
    parser = SubcommandParser(prog="binary-checks ci init", description=_INIT)
    parser.add_argument("file", metavar="CELLS.toml", type=Path, nargs="?")
    for name, help_text in _MANY.items():
        parser.add_argument(f"--{name}", action="append", default=[], help=help_text)
    for name, help_text in _ONE.items():
        parser.add_argument(f"--{name}", default="", help=help_text)
    options = parser.parse_args(arguments)
    file: Path = options.file or Path(DEFAULT_FILE)
    matrix = read_cells(file)
    if has_settings(matrix):
        raise ProfileError(f"{file}: it already has a [ci] table; edit it, then run `ci write`")
    values = {name: getattr(options, name) for name in (*_MANY, *_ONE)}
    lines = [
        f"{_KEYS.get(name, name)} = {_format_toml(value)}"
        for name, value in values.items()
        if value
    ]
    table = "\n".join(["", "[ci]", *lines, ""])
    content = matrix.content + table.encode()
    settings = read_ci(parse_cells(content, file))
    require_install(settings, str(file))
    file.write_bytes(content)
    print(one_line(f"{file}: [ci] appended"))
    return run_write([str(file)])


def _format_toml(value: str | list[str]) -> str:
    """Return a text, or a list of texts, as TOML."""
    if isinstance(value, str):
        return quote_toml(value)
    return f"[{', '.join(map(quote_toml, value))}]"


# ``binary-checks ci pin``: ask the repositories of actions to which commits tags point.

_PIN = (
    "Print lines for [ci.actions] that pin actions to the commits of their tags; without "
    "arguments, report pinned tags that have moved. Asks the repositories of the actions, by git."
)


def run_pin(arguments: Sequence[str]) -> int:
    """Resolve the named actions, or compare all pins with their tags; return the exit status."""
    from binary_checks.fleet.ci.actions import SERVER, list_moved, resolve_pin
    from binary_checks.fleet.ci.ci_settings import read_ci

    parser = SubcommandParser(prog="binary-checks ci pin", description=_PIN)
    parser.add_argument(
        "action", metavar="ACTION@TAG", nargs="*", help="as actions/checkout@v4.2.2"
    )
    parser.add_argument(
        "--cells",
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"the matrix (default: {DEFAULT_FILE})",
    )
    parser.add_argument(
        "--server",
        metavar="URL",
        default=SERVER,
        help=f"server of the repositories (default: {SERVER})",
    )
    options = parser.parse_args(arguments)
    if options.action:
        for pin in [resolve_pin(each, options.server) for each in options.action]:
            print(f'"{pin.name}" = {{ commit = "{pin.commit}", tag = "{pin.tag}" }}')
        return 0
    pins = [*read_ci(read_matrix(options.cells)).actions.values()]
    moved = [*list_moved(pins, options.server)]
    for line in moved:
        print(one_line(line))
    if not moved:
        print(f"{len(pins)} actions are pinned to the commits of their tags")
    return PROBLEMS if moved else 0


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
