"""Recognises Mach-O files, thin and fat; they are not read yet."""

from __future__ import annotations

from binary_checks.model import Format, UnreadObject
from binary_checks.model.source import ByteSource

_THIN = (b"\xfe\xed\xfa\xce", b"\xfe\xed\xfa\xcf", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe")
_FAT = (b"\xca\xfe\xba\xbe", b"\xca\xfe\xba\xbf")
_OLDEST_JAVA = 45
"""Java class files begin as fat ones do; where those count slices, they have a version."""


def recognises(head: bytes) -> bool:
    """Whether the first bytes announce a Mach-O file."""
    if head[:4] in _FAT:
        return 0 < int.from_bytes(head[4:8], "big") < _OLDEST_JAVA
    return head[:4] in _THIN


def retained(head: bytes, size: int) -> tuple[tuple[int, int], ...]:  # noqa: ARG001 - as its twins
    """Nothing: what is not read need not be kept."""
    return ()


def read(path: str, source: ByteSource) -> tuple[UnreadObject, ...]:  # noqa: ARG001 - as its twins
    """Say that the file is there and was not read."""
    return (UnreadObject(path=path, format=Format.MACHO, reason="Mach-O is not read yet"),)
