"""Report where the running interpreter looks for packages, and the versions of some of them.

With ``-S`` no installed code runs: this script reads the same files as site, but only the paths in
``*.pth`` files.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any


def probe(request: dict[str, Any], record: Any, _process: dict[str, Any]) -> None:
    """Report the folders, and the versions of the distributions that the request names."""
    folders, prefix, unread = find_folders()
    answer = {"folders": folders, "prefix": prefix, "unread": unread}
    record.finish(dict(answer, versions=find_versions(request.get("names", []))))


def find_versions(names: list[str]) -> dict[str, str]:
    """Return the version of each installed distribution, as an import would find it."""
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in names:
        try:
            found[name] = str(version(name))
        except PackageNotFoundError:
            continue
    return found


def find_folders() -> tuple[list[str], str, list[str]]:
    """Return the folders, the prefix, and the files whose code might add more folders."""
    if not sys.flags.no_site:
        return sys.path, sys.prefix, []
    import site  # its functions return the folders; with -S importing it runs nothing

    prefixes = list(dict.fromkeys(site.PREFIXES))
    place = find_environment()
    if place is not None:
        folder, with_system = place
        sys.prefix = sys.exec_prefix = folder  # Debian's site compares it with the base's
        prefixes = [folder, *(prefixes if with_system else [])]
    folders, unread = list(sys.path), []
    for site_folder in site.getsitepackages(prefixes):
        if os.path.isdir(site_folder):
            added, with_code = read_paths(site_folder)
            folders += [site_folder, *added]
            unread += with_code
    return folders, sys.prefix, unread


def find_environment() -> tuple[str, bool] | None:
    """Return the virtual environment, and whether the base's packages are visible in it."""
    here = os.path.dirname(os.path.abspath(sys.executable))
    for folder in (here, os.path.dirname(here)):
        try:
            with open(os.path.join(folder, "pyvenv.cfg"), encoding="utf-8") as file:
                rows = [line.partition("=") for line in file]
        except OSError:
            continue
        stated = {key.strip().lower(): value.strip().lower() for key, _, value in rows}
        return os.path.dirname(here), stated.get("include-system-site-packages", "true") == "true"
    return None


def read_paths(folder: str) -> tuple[list[str], list[str]]:
    """Return the folders in ``*.pth`` files, and the names of the files that contain code."""
    added, with_code = [], []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".pth") or name.startswith("."):
            continue
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                lines = file.read(1 << 20).splitlines()
        except OSError:
            continue
        if any(line.startswith(("import ", "import\t")) for line in lines):
            with_code.append(name)
        for line in lines:
            path = os.path.join(folder, line.rstrip())
            if line.strip() and not line.startswith(("#", "import ", "import\t")):
                added += [path] if os.path.isdir(path) else []
    return added, with_code
