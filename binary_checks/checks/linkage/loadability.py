"""Whether a loader accepts an object at all, before it searches for anything."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import ElfFile, Finding, Kind, ObjectFile, StaticArchive
from binary_checks.model.objects import format_of_name
from binary_checks.model.python_modules import parse_extension_name

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_FOR_DEBUGGERS = re.compile(r"(?:\A|/)(?:\.debug|debug|[^/]*\.dSYM)/")


@check
def unloadable_object(library: ObjectFile) -> Iterator[Finding]:
    """A loader refuses an object because of its headers or tables, or crashes on them.

    Before they run any of its code, loaders require consistent sizes, alignments and addresses, and
    tables that lie within the file and its segments or sections.

    Why: the import fails, or the process dies, on every system.
    Fix: look for a tool that damaged the file while rewriting it (strip, patchelf,
    install_name_tool, a packer, a signing step), and build it again.
    Level: no user can load the file.
    """
    if library.kind in _LOADED:
        yield from library.refusals


@check
def wrong_object_type(library: ObjectFile) -> Iterator[Finding]:
    """A file is named like a library or extension module but is another kind of object.

    This covers relocatable objects, programs, core dumps, static archives and separate debug
    information under a name that ends in ``.so``, ``.pyd``, ``.dll`` or ``.dylib``.

    Why: linkers and debuggers read such files; a loader refuses them, and the import fails.
    Fix: link the library (``-shared``, ``-bundle``, ``/DLL``), or rename the file.
    Level: no user can load the file.
    """
    if format_of_name(library.path) is None or _is_meant_so(library):
        return
    kind = "static archive" if isinstance(library, StaticArchive) else library.kind.value
    yield f"is named like a library, but no loader accepts this kind of file: {kind}"


def _is_meant_so(library: ObjectFile) -> bool:
    if library.kind is Kind.EXECUTABLE:
        # An ELF library may have an interpreter, as glibc's own that print their version do.
        return isinstance(library, ElfFile) and library.opens
    if library.kind is Kind.DEBUG:
        return bool(_FOR_DEBUGGERS.search(library.path))
    if library.kind is Kind.DEVICE:
        name = parse_extension_name(library.path)
        return name is None or not (name.version or name.stable)
    return library.kind is Kind.SHARED and not isinstance(library, StaticArchive)
