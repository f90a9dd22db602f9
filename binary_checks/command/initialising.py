"""``binary-checks ci init``: a first [ci] table for a matrix, and the files that it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser
from binary_checks.command.writing_pipelines import run as write
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.cells_file import DEFAULT_FILE, parse_cells, read_cells
from binary_checks.fleet.ci.ci_settings import SYSTEMS, demand_install, has_settings, read_ci
from binary_checks.lines import one_line
from binary_checks.profile.toml_values import quote_toml

_PURPOSE = (
    "Append a [ci] table to a matrix, and write the files of its CI systems. They do not change "
    "when cells do; after a change of [ci] or [[runners]], `ci write` writes them again."
)
_MANY: Mapping[str, str] = {
    "system": "a CI system, repeatable: " + ", ".join(SYSTEMS),
    "build": "a shell line that puts the files of a cell into dist/, repeatable",
    "install": "a requirement that installs binary-checks in the jobs, repeatable",
    "secret": "the name of a variable with a credential of the store, repeatable",
}
_ONE: Mapping[str, str] = {
    "store": "a folder, or s3://bucket/prefix, for what is built and found",
    "built": "the channel for everything that was built",
    "published": "the channel for what the policy lets through",
    "policy": "the file of the policy",
    "key": "the name of the variable with the private key",
    "deployment": "the environment, context or variable group that has the secrets",
    "branch": "whose pushes run the tier merge (default: main)",
    "schedule": "of the night, as five fields of cron, in UTC (default: 17 3 * * *)",
}
_KEYS = {"system": "systems", "secret": "secrets"}  # as the table calls what options name singly


def run(arguments: Sequence[str]) -> int:
    """Append the table, and write the files; returns the exit status."""
    parser = SubcommandParser(prog="binary-checks ci init", description=_PURPOSE)
    parser.add_argument("file", metavar="CELLS.toml", type=Path, nargs="?")
    for name, said in _MANY.items():
        parser.add_argument(f"--{name}", action="append", default=[], help=said)
    for name, said in _ONE.items():
        parser.add_argument(f"--{name}", default="", help=said)
    options = parser.parse_args(arguments)
    file: Path = options.file or Path(DEFAULT_FILE)
    matrix = read_cells(file)
    if has_settings(matrix):
        raise ProfileError(f"{file}: it has a [ci] already; edit it, then `ci write`")
    values = {name: getattr(options, name) for name in (*_MANY, *_ONE)}
    lines = [
        f"{_KEYS.get(name, name)} = {_spell(value)}" for name, value in values.items() if value
    ]
    table = "\n".join(["", "[ci]", *lines, ""])
    content = matrix.content + table.encode()
    settings = read_ci(parse_cells(content, file))
    demand_install(settings, str(file))
    file.write_bytes(content)
    print(one_line(f"{file}: [ci] appended"))
    return write([str(file)])


def _spell(value: str | list[str]) -> str:
    """A text, or a list of texts, in TOML."""
    if isinstance(value, str):
        return quote_toml(value)
    return f"[{', '.join(map(quote_toml, value))}]"
