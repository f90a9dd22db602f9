"""Wheels (PyPA's "Binary distribution format"), also as ``wheel unpack`` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name, parse_wheel_filename

from binary_checks.errors import PackageError
from binary_checks.knowledge.tags import read_python
from binary_checks.model import (
    ContentStore,
    Distribution,
    Layout,
    ObjectReader,
    Preview,
    Progress,
    PythonClaim,
    Tree,
    UnpackedWheel,
    Visited,
    VisitRequest,
    Wheel,
)
from binary_checks.packages.distributions import (
    DIST_INFO,
    LONGEST,
    Headers,
    InstallTarget,
    Texts,
    assemble,
    read_headers,
    read_members,
    read_text,
    read_texts,
)
from binary_checks.trees.members import find_formats


def recognises(label: str, look: Callable[[], Tree]) -> bool:
    """Return whether the file has the suffix of a wheel, or is a folder with a wheel's contents.

    Such a folder has exactly one ``*.dist-info``, which contains WHEEL. A site-packages has one for
    each package.
    """
    if not label.endswith("/"):
        return label.endswith(".whl")
    tree = look()
    found = _list_dist_infos(tree)
    wanted = f"{found[0]}/WHEEL" if len(found) == 1 else ""
    return any(entry.name == wanted for entry in tree.entries())


def preview(tree: Tree, reader: ObjectReader) -> Preview:
    """Read a wheel's list of members, and the first bytes of each member."""
    kind = UnpackedWheel if tree.label.endswith("/") else Wheel
    if kind is Wheel:
        parse_file_name(tree.label)
        _find_variant_label(tree, find_dist_info(tree))
    return Preview(kind=kind, formats=find_formats(tree, tree.entries(), reader))


def read(
    tree: Tree,
    reader: ObjectReader,
    progress: Progress | None = None,
    store: ContentStore | None = None,
) -> Distribution:
    """Read a wheel from start to end. Raises PackageError if it is not a wheel."""
    kind: type[Distribution] = Wheel
    own: dict[str, Any] = {}
    if tree.label.endswith("/"):
        kind, dist_info = UnpackedWheel, find_dist_info(tree)
        name, _, version = dist_info.removesuffix(DIST_INFO).partition("-")
        name = str(canonicalize_name(name))
        # WHEEL is read before everything else: its tags decide where files are installed
        text = read_text(tree, f"{dist_info}/WHEEL", LONGEST["WHEEL"])
        if text is None:
            raise PackageError(f"{tree.label}: {dist_info}/WHEEL cannot be read")
        tags = read_tags(read_headers(text)[0])
    else:
        name, version, build, tags = parse_file_name(tree.label)
        dist_info = find_dist_info(tree)
        own = {"build": build, "variant_label": _find_variant_label(tree, dist_info)}
    layout = lay_out(name, tags)
    kept = {f"{dist_info}/{text}": most for text, most in LONGEST.items()}
    wanted = VisitRequest(place=make_placer(dist_info, layout), texts=kept, store=store)
    reading = read_members(tree, reader, wanted, InstallTarget(layout, tags), progress)
    texts = _read_texts(tree.label, dist_info, reading.visited)
    faults = {f"{dist_info}/{text}": found for text, found in texts.faults.items() if found}
    visited = [_add_faults(each, faults) for each in reading.visited]
    return assemble(
        kind,
        reading._replace(visited=visited),
        texts,
        path=tree.path,
        name=name,
        version=version,
        size=tree.size,
        layout=layout,
        archive_faults=tree.faults,
        ambiguities=tree.ambiguities,
        tags=tags,
        dist_info=dist_info,
        **own,
    )


def read_tags(headers: Headers) -> tuple[Tag, ...]:
    """Return the valid tags that WHEEL states; there may be none."""
    tags: set[Tag] = set()
    for key, value in headers:
        if key.lower() == "tag" and value.count("-") == 2:
            tags |= parse_tag(value)
    return tuple(sorted(tags, key=str))


_VARIANT = re.compile(
    r"(?P<plain>[^-]+-[^-]+(?:-\d[^-]*)?-[^-\d][^-]*-[^-]+-[^-]+)-(?P<label>[0-9a-z_.]{1,16})\.whl"
)
"""The file name of a wheel variant (PEP 817 and PEP 825, both drafts): the label is the last part.
A build tag begins with a digit, and the tag of a Python does not.
"""


def split_variant_label(file_name: str) -> tuple[str, str]:
    """Return the file name without the label of a wheel variant, and the label, or ""."""
    match = _VARIANT.fullmatch(file_name)
    return (f"{match['plain']}.whl", match["label"]) if match else (file_name, "")


def _find_variant_label(tree: Tree, dist_info: str) -> str:
    """Return the label of a wheel variant. Raises PackageError if the name has one part too many.

    A variant has variant.json (PEP 825), without which uv refuses the name, as pip does anyway.
    """
    label = split_variant_label(tree.label)[1]
    if label and tree.find(f"{dist_info}/variant.json") is None:
        raise PackageError(
            f"{tree.label}: its name has a part too many: a build tag begins with a digit, and a "
            f"wheel variant has {dist_info}/variant.json; pip and uv refuse it"
        )
    return label


_OF_TAGS = re.compile(r"[A-Za-z0-9_.-]")  # as uv reads them; pip finds no system for others


def parse_file_name(file_name: str) -> tuple[str, str, str, tuple[Tag, ...]]:
    """Return name, version, build tag and tags in a wheel's file name ("File name convention").

    The label of a wheel variant is left out.
    """
    file_name, _ = split_variant_label(file_name)
    if file_name.endswith(".whl") and file_name.count("-") not in (4, 5):  # 5: with a build tag
        raise PackageError(f"{file_name}: its name is not NAME-VERSION-PYTHON-ABI-PLATFORM.whl")
    try:
        name, version, build, tags = parse_wheel_filename(file_name)
    except ValueError as error:
        raise PackageError(f"{file_name}: not the file name of a wheel: {error}") from None
    odd = sorted({each for tag in tags for each in str(tag) if not _OF_TAGS.fullmatch(each)})
    if odd:
        raise PackageError(
            f"{file_name}: its tags contain {''.join(odd)!r}, and pip and uv refuse it: rename it "
            "(browsers add ' (1)' to the name of a second download)"
        )
    label = "".join(map(str, build))
    return name, str(version), label, tuple(sorted(tags, key=str))


def find_dist_info(tree: Tree) -> str:
    """Return the only top-level ``*.dist-info`` folder. Raises PackageError for none or several."""
    found = _list_dist_infos(tree)
    if not found:
        raise PackageError(f"{tree.label}: not a wheel: it has no *{DIST_INFO} folder")
    if len(found) > 1:
        few = ", ".join(found[:3])
        raise PackageError(f"{tree.label}: it has {len(found)} *{DIST_INFO} folders: {few}")
    return found[0]


def _list_dist_infos(tree: Tree) -> list[str]:
    roots = {entry.name.partition("/")[0] for entry in tree.entries() if "/" in entry.name}
    return sorted(root for root in roots if root.endswith(DIST_INFO))


def _read_texts(label: str, dist_info: str, visited: Iterable[Visited]) -> Texts:
    about = {  # if two members have the same name the last counts, as for all installers
        each.member.archive_name.removeprefix(f"{dist_info}/"): each
        for each in visited
        if each.member.archive_name.startswith(f"{dist_info}/")
    }
    contents = {text: about[text].content for text in LONGEST if text in about}
    for text in ("METADATA", "WHEEL"):
        if contents.get(text, b"") is None:
            reason = about[text].member.faults[-1]
            raise PackageError(f"{label}: {dist_info}/{text} cannot be read: {reason}")
    texts = read_texts(contents)
    if "RECORD" in contents and texts.record is None:
        return texts._replace(record=(), record_faults=about["RECORD"].member.faults[-1:])
    return texts


def _add_faults(each: Visited, faults: Mapping[str, tuple[str, ...]]) -> Visited:
    more = faults.get(each.member.archive_name)
    if not more:
        return each
    return each._replace(member=replace(each.member, faults=(*each.member.faults, *more)))


# The paths to which an installer such as pip writes the members in a virtual environment.

_FOLDERS = {"cpython": "python", "": "python", "pypy": "pypy"}
"""The folder's name below ``lib`` by implementation (sysconfig: ``implementation_lower``)."""


def lay_out(name: str, tags: Iterable[Tag]) -> Layout:
    """Return the layout of the prefix in which a wheel, or its installed copy, is installed.

    A wheel for several Pythons (``cp39-abi3``, ``cp310.cp311``) is in the site-packages of the
    oldest Python that the wheel claims. A wheel that claims no minor version (``py3-none``) is in
    ``lib/python3/site-packages``, which represents the site-packages of every Python. On Windows
    the path of site-packages has no version. A wheel for several systems has the layout of Linux
    and macOS.
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
    """Return the installed path of a member ("The .data directory").

    A member ``<data>/<scheme>/x`` goes to the scheme's folder, all others to site-packages. A name
    that leads out of its folder stays unresolved, since checks judge the name as it is written.
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


def make_placer(dist_info: str, layout: Layout) -> partial[str]:
    """Return `place_member` for the wheel with that metadata folder."""
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
