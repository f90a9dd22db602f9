"""Where an installer puts the members of a wheel: what pip does in a virtual environment."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from packaging.tags import Tag

from binary_checks.knowledge.tags import read_python
from binary_checks.model import Layout, PythonClaim

_FOLDERS = {"cpython": "python", "": "python", "pypy": "pypy"}
"""How an implementation's folder below ``lib`` begins (sysconfig: ``implementation_lower``)."""


def lay_out(name: str, tags: Iterable[Tag]) -> Layout:
    """The layout of the prefix into which a wheel, or its installed copy, is put.

    A wheel for several Pythons (``cp39-abi3``, ``cp310.cp311``) lies in the site-packages of the
    oldest that it claims; one that claims no minor version (``py3-none``) in
    ``lib/python3/site-packages``, which stands for that of every Python. On Windows site-packages
    has no version in its path. A wheel for several systems is laid out as on Linux and macOS.
    """
    tags = tuple(tags)
    versioned = [each for each in map(read_python, tags) if each.version is not None]
    oldest = min(
        versioned, key=lambda each: (each.version, each.name), default=PythonClaim(name="")
    )
    version = "{}.{}".format(*oldest.version) if oldest.version else ""
    headers = f"include/site/python{version}/{name}"
    if tags and all(tag.platform.startswith("win") for tag in tags):
        return Layout(
            site_packages="Lib/site-packages",
            scripts="Scripts",
            python="",
            libraries="",
            headers=headers,
        )
    folder = _FOLDERS.get(oldest.implementation, oldest.implementation)
    suffix = "t" if oldest.free_threaded else ""
    return Layout(
        site_packages=f"lib/{folder}{version or 3}{suffix}/site-packages", headers=headers
    )


def place_member(archive_name: str, data: str, layout: Layout) -> str:
    """Map ``<data>/<scheme>/x``; a name that leads elsewhere stays in what it leads out of.

    Checks judge such a name by its spelling, so nothing of it is resolved.
    """
    root, slash, rest = archive_name.partition("/")
    inner_name = _in_scheme(rest, layout) if root == data and slash else None
    if inner_name is None or _escapes(archive_name):
        return (
            archive_name
            if archive_name.startswith("/")
            else _join(layout.site_packages, archive_name)
        )
    return inner_name


def placing(dist_info: str, layout: Layout) -> partial[str]:
    """`place_member` for the wheel with that metadata folder."""
    data = f"{dist_info.removesuffix('.dist-info')}.data"
    return partial(place_member, data=data, layout=layout)


def _in_scheme(path: str, layout: Layout) -> str | None:
    scheme, slash, inner = path.partition("/")
    folders = {
        "purelib": layout.site_packages,
        "platlib": layout.site_packages,
        "scripts": layout.scripts,
        "data": layout.data,
        "headers": layout.headers,
    }
    if not slash or not inner or scheme not in folders:
        return None
    return _join(folders[scheme], inner)


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _escapes(archive_name: str) -> bool:
    return "\\" in archive_name or any(part in {"", "..", "."} for part in archive_name.split("/"))
