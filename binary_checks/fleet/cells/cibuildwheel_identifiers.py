"""Write cells.toml for cibuildwheel's build identifiers, such as cp312-manylinux_x86_64."""

from __future__ import annotations

import re

from binary_checks.errors import ProfileError
from binary_checks.profile import quote_toml

_IDENTIFIER = re.compile(r"[a-z]{2}\d+(?:_\d+)?t?-\w+", re.ASCII)
_BUILD = re.compile(r"cp3(\d+t?)-(manylinux_|musllinux_|macosx_|win32|win_)(\w*)", re.ASCII)
"""Matches an identifier for which there is a cell."""
_HOSTS = {
    "manylinux_": "linux-",
    "musllinux_": "musllinux-",
    "macosx_": "macos-",
    "win32": "windows-x86",
    "win_": "windows-",
}
_UNIVERSAL = {"universal2": ("x86_64", "arm64")}  # one wheel for both architectures


def write_cells_file(text: str, named: str, project: str) -> tuple[str, list[str]]:
    """Return a cells.toml for the output of ``cibuildwheel --print-build-identifiers``.

    It has one block for each cell. The second value lists the identifiers without a corresponding
    cell, which are left out. Raises ProfileError for anything that is not an identifier.
    """
    blocks: dict[str, None] = {}
    left = list[str]()
    for number, line in enumerate(text.splitlines(), 1):
        identifier = line.strip()
        if identifier and not _IDENTIFIER.fullmatch(identifier):
            raise ProfileError(
                f"{named}: line {number}: {identifier!r:.60} is not a cibuildwheel identifier, "
                "such as cp312-manylinux_x86_64"
            )
        found = _BUILD.fullmatch(identifier)
        if found is None:
            left += filter(None, [identifier])
            continue
        python, host, architecture = found.groups()
        for each in _UNIVERSAL.get(architecture, (architecture,)):
            system = f'system = "{_HOSTS[host]}{each}"\npython = "3.{python}"'
            blocks[f"\n[[cells]]\nproject = {quote_toml(project)}\n{system}\n"] = None
    if not blocks:
        raise ProfileError(f"{named}: no identifier corresponds to a cell")
    heading = f"# The matrix of {named}, as `binary-checks cells --from` writes it.\n"
    return heading + "".join(blocks), left
