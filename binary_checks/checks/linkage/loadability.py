"""Whether a loader takes an object at all, before anything is looked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import ElfFile, Finding, Kind, NotInspected, ObjectFile, StaticArchive
from binary_checks.model.extensions import parse_extension_name
from binary_checks.model.objects import format_of_name

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_FOR_DEBUGGERS = re.compile(r"(?:\A|/)(?:\.debug|debug|[^/]*\.dSYM)/")


@check
def unloadable_object(library: ObjectFile) -> Iterator[Finding]:
    """A loader refuses an object for what its own headers and tables say, or crashes over them.

    It is what loaders demand before they run any code of it: sizes, alignments and addresses that
    fit together, tables that lie within the file and in its segments or sections.

    Why: the import fails, or the process dies, on every system.
    Fix: look for a tool that rewrote the file (strip, patchelf, install_name_tool, a packer, a
    signing step) and went wrong, and build it again.
    """
    if library.kind in _LOADED:
        yield from library.refusals
        for sentence in library.doubts:
            yield NotInspected(path=library.path, sentence=sentence)


@check(formerly=("no-loader-takes-it",))
def wrong_object_type(library: ObjectFile) -> Iterator[Finding]:
    """A file has the name of a library or extension module and is an object of another kind.

    A relocatable object, a program, a core dump, a static archive or bare debug information, under
    a name that ends in ``.so``, ``.pyd``, ``.dll`` or ``.dylib``.

    Why: linkers and debuggers take such files; a loader refuses them, and the import fails.
    Fix: link the library (``-shared``, ``-bundle``, ``/DLL``), or give the file its own name.
    """
    if format_of_name(library.path) is None or _is_meant_so(library):
        return
    kind = "static archive" if isinstance(library, StaticArchive) else library.kind.value
    yield f"has the name of a library, and no loader takes its kind of file: {kind}"


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
