"""Libraries on this host that repair tools would find: advice depends on them, no verdict does."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection, Iterable, Iterator
from glob import iglob
from pathlib import Path

from binary_checks.model import Format, Linkage, Package, TargetSystem, path_elements

_USUAL = ("/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib")
_CONFIGURATION = Path("/etc/ld.so.conf")
_DEEPEST = 4  # nested includes
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def find_on_host(linkage: Linkage, package: Package, target: TargetSystem) -> frozenset[str]:
    """Return the names of missing libraries that a repair tool would find on this host."""
    missing = {e.needed for e in linkage.edges if e.resolved is None and not e.elsewhere}
    if not missing or not _is_of_host(target):
        return frozenset()
    folders = dict.fromkeys(filter(None, _list_folders(linkage.format, package)))
    return frozenset(_find(sorted(missing), folders))


def _is_of_host(target: TargetSystem) -> bool:
    """Return whether this host is such a system: a repair tool runs only there."""
    machine = platform.machine().lower()
    system = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform, "")
    return target.system == system and _MACHINES.get(machine, machine) in target.architectures


def _list_folders(form: str, package: Package) -> Iterator[str]:
    """Yield the directories in which the repair tool for a format looks for libraries."""
    if form == Format.PE:
        yield from os.environ.get("PATH", "").split(os.pathsep)
    if form == Format.ELF:
        yield from _USUAL
        yield from os.environ.get("LD_LIBRARY_PATH", "").split(":")
        yield from _read_configuration(_CONFIGURATION)
    if form in (Format.ELF, Format.MACHO):
        for item in package.objects:
            yield from (each for each in path_elements(item) if each.startswith("/"))


def _read_configuration(file: Path, depth: int = 0) -> Iterator[str]:
    """Yield the directories in ld.so.conf and the files that it includes (ldconfig(8))."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and depth < _DEEPEST:
            for pattern in words[1:]:
                for found in sorted(iglob(str(file.parent / pattern))):  # noqa: PTH207 - absolute
                    yield from _read_configuration(Path(found), depth + 1)
        elif words:
            yield words[0]


def _find(names: Iterable[str], folders: Collection[str]) -> Iterator[str]:
    for needed in names:
        name = needed.rpartition("/")[2]
        places = [needed] if needed.startswith("/") else [f"{each}/{name}" for each in folders]
        if any(map(os.path.isfile, places)):
            yield name
