"""Read which side-by-side assemblies an image needs: its manifest, a resource, names them.

The directories of resources are in "PE Format" (Microsoft), "The .rsrc Section", the elements of a
manifest in "Application Manifests".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from struct import Struct

from binary_checks.errors import MalformedError, TooLarge
from binary_checks.objects.pe.header import IMAGE_FILE_DLL, RESOURCE, MappedImage

_MANIFEST = 24  # RT_MANIFEST
# CREATEPROCESS_MANIFEST_RESOURCE_ID, ISOLATIONAWARE_MANIFEST_RESOURCE_ID
_OF_PROGRAMS, _OF_LIBRARIES = 1, 2
# "Resource Directory Table", 16 bytes: the numbers of entries with names and with numbers, which
# follow in this order
_COUNTS = Struct("<12xHH")
# "Resource Directory Entries": name or number, and an offset in bytes from the start of .rsrc
_ENTRY = Struct("<II")
_DATA = Struct("<II")  # "Resource Data Entry": address, and size in bytes
_DEEPER = 1 << 31  # in an offset: it leads to another directory
_DEPENDENCY = re.compile(r"<(?:\w{1,20}:)?dependency\b")
_OPTIONAL = re.compile(r"[^>]*\boptional\s*=\s*['\"]yes")
_NAME = re.compile(r"assemblyIdentity\b[^<>]*?\bname\s*=\s*['\"]([^'\"]+)['\"]")


def read_assemblies(image: MappedImage) -> tuple[str, ...] | None:
    """Return the assemblies that the loader must find; None if the resources are faulty.

    Windows uses manifest number 1 for a program, and number 2 for a DLL.
    """
    start, size = image.header.directories[RESOURCE]
    if not start or not size:
        return ()
    is_library = image.header.characteristics & IMAGE_FILE_DLL
    try:
        kind = _find(image, start, 0, _MANIFEST)
        own = _find(image, start, kind, _OF_LIBRARIES if is_library else _OF_PROGRAMS)
        entry = _find(image, start, own, None)
        if entry is None:
            return ()
        address, length = image.unpack(_DATA, start + entry, "a manifest")
        content = image.read(address, length, "a manifest")
    except (MalformedError, TooLarge):
        return None
    return tuple(dict.fromkeys(_find_names(content.decode("utf-8", "replace"))))


def _find(image: MappedImage, start: int, directory: int | None, number: int | None) -> int | None:
    """Return where the entry of a directory leads; the first entry if ``number`` is None."""
    if directory is None:
        return None
    named, numbered = image.unpack(_COUNTS, start + directory, "resources")
    first = start + directory + _COUNTS.size
    for at in range(first, first + (named + numbered) * _ENTRY.size, _ENTRY.size):
        found, place = image.unpack(_ENTRY, at, "resources")
        if number is None or found == number:
            return int(place & ~_DEEPER)
    return None


def _find_names(manifest: str) -> Iterator[str]:
    first, *commented = manifest.split("<!--")
    text = "".join((first, *(each.partition("-->")[2] for each in commented)))
    for each in _DEPENDENCY.split(text)[1:]:
        if not _OPTIONAL.match(each):
            yield from _NAME.findall(each.partition("dependency>")[0])
