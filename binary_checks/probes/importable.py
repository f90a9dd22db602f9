"""The names and extension modules of a package that an interpreter can import."""

from __future__ import annotations

import keyword
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath

from binary_checks.errors import NotApplicable
from binary_checks.knowledge.python_libraries import ModuleFiles
from binary_checks.model import (
    Kind,
    ObjectFile,
    Package,
    Place,
    is_extension,
    parse_extension_name,
)

# Other top-level folders that are often packaged by mistake and have additional requirements.
_ASIDE = frozenset(
    ["tests", "test", "testing", "docs", "doc", "examples", "example", "benchmarks", "scripts"]
)


def find_import_names(wheel: Package, suffixes: Collection[str]) -> tuple[str, ...]:
    """Return the top-level packages and modules by which a package is imported, sorted.

    For a namespace package, which is a folder without ``__init__``, return the packages in it
    (``google.protobuf``): importing a namespace itself runs nothing. ``suffixes`` are the
    interpreter's suffixes of extension modules. Raises NotApplicable if nothing can be imported.
    """
    # files that look like extension modules but are libraries: ``.so`` without PyInit
    modules = {item.path for item in wheel.objects if is_extension(item)}
    parsed = ((member.path, parse_extension_name(member.path)) for member in wheel.members)
    bare = {path for path, name in parsed if name is not None and name.suffix == ".so"}
    libraries = bare - modules
    paths = [
        PurePosixPath(path).parts
        for member in wheel.members
        if not member.is_directory and member.path not in libraries
        if (path := wheel.layout.inside(member.path))
    ]
    names = set(_find_names(paths, tuple(suffixes)))
    names = {name for name in names if name not in _ASIDE} or names
    if not names:
        raise NotApplicable("the wheel contains no Python module")
    return tuple(sorted(names))


def _find_names(paths: Iterable[tuple[str, ...]], suffixes: tuple[str, ...]) -> Iterator[str]:
    pending = [("", 0, list(paths))]  # prefix, its number of parts, and the paths below it
    while pending:
        prefix, depth, inside = pending.pop()
        folders: dict[str, list[tuple[str, ...]]] = {}
        for parts in inside:
            first = parts[depth]
            if len(parts) > depth + 1:
                folders.setdefault(first, []).append(parts)
            # A single module in a namespace may be a script or an example.
            elif not (prefix and first.endswith(".py")) and _is_plain(
                _module_name(first, suffixes)
            ):
                yield prefix + _module_name(first, suffixes)
        for folder, inner in folders.items():
            if not _is_plain(folder) or (prefix and folder in _ASIDE):
                continue
            files = (parts[-1] for parts in inner if len(parts) == depth + 2)
            if any(_module_name(file, suffixes) == "__init__" for file in files):
                yield prefix + folder
            else:
                pending.append((f"{prefix}{folder}.", depth + 1, inner))


def _module_name(file_name: str, suffixes: tuple[str, ...]) -> str:
    """Return the name of the module in a file, or "" if no import finds the file."""
    for suffix in (".py", *suffixes):
        if file_name.endswith(suffix) and "." not in (name := file_name[: -len(suffix)]):
            return name
    return ""


def _is_plain(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name != "__pycache__"


def find_holder(place: Place, package: Package, library: str) -> str:
    """Return another project's top-level package that contains a library; "" if none does.

    It is "" as well if this host cannot read the files of the environment.
    """
    folders = place.installed if library else None
    if folders is None:
        return ""
    own = package.derive(ModuleFiles).roots
    paths = sorted(folders.site_packages.rglob(library))
    tops = (path.relative_to(folders.site_packages).parts[0] for path in paths)
    return next((top for top in tops if _is_plain(top) and top not in own), "")


def _knows_python(library: ObjectFile) -> bool:
    """Return whether a library uses Python's C API, or exports an init function of any name."""
    return any(name.startswith("PyInit") for name in library.exports.names) or any(
        name.startswith(("Py", "_Py")) for name in library.imports.names
    )


def find_extensions(wheel: Package, suffixes: Collection[str]) -> tuple[str, ...]:
    """Return the extension modules that the interpreter can import: sorted paths in site-packages.

    A file whose suffix names an ABI counts, with or without PyInit. A ``.so`` without an ABI and
    without PyInit is a library. So is a file that does not use Python at all, whatever its suffix
    (pycryptodome's ``_MD2.abi3.so``). Raises NotApplicable if there is no extension module.
    """
    found = set()
    for item in wheel.objects:
        path = wheel.layout.inside(item.path)
        name = parse_extension_name(path) if path else None
        if path is None or name is None or name.suffix not in suffixes:
            continue
        if item.kind is Kind.SHARED and (
            is_extension(item) or (name.tagged and _knows_python(item))
        ):
            found.add(path)
    if not found:
        raise NotApplicable("no extension module for this interpreter")
    return tuple(sorted(found))
