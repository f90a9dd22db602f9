"""Where an installer puts the members of a wheel, relative to site-packages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.tags import Tag

_PYTHON = re.compile(r"[a-z]+(?P<major>\d)(?P<minor>\d+)?")


def place_member(archive_name: str, data: str, scripts: str, prefix: str, headers: str) -> str:
    """Map ``<data>/<scheme>/x``; a name that leads elsewhere stays, for checks to judge."""
    root, slash, rest = archive_name.partition("/")
    if root != data or not slash or _escapes(archive_name):
        return archive_name
    scheme, slash, inner = rest.partition("/")
    folders = {"purelib": "", "platlib": "", "scripts": scripts, "data": prefix, "headers": headers}
    if not slash or not inner or scheme not in folders:
        return archive_name
    return folders[scheme] + inner


def _escapes(archive_name: str) -> bool:
    return "\\" in archive_name or any(part in {"", "..", "."} for part in archive_name.split("/"))


def folders_of(name: str, tags: Iterable[Tag]) -> tuple[str, str, str]:
    """Say where scripts, data and headers land: what pip does in a virtual environment."""
    first = min(tags, key=str)
    if first.platform.startswith("win"):
        prefix, scripts = "../../", "../../Scripts/"  # site-packages is <prefix>/Lib/site-packages
    else:
        prefix, scripts = "../../../", "../../../bin/"
    match = _PYTHON.fullmatch(first.interpreter)
    version = f"{match['major']}.{match['minor']}" if match and match["minor"] else ""
    return scripts, prefix, f"{prefix}include/site/python{version}/{name}/"
