"""Recognises PE images; they are not read yet."""

from __future__ import annotations

from binary_checks.model import Format, UnreadObject
from binary_checks.model.source import ByteSource

_LARGEST_STUB = 1 << 20
"""Where the PE header may lie at most; real DOS stubs have some hundred bytes."""


def recognises(head: bytes) -> bool:
    """Whether the first bytes announce a PE image, or at least a DOS program."""
    return head.startswith(b"MZ")


def retained(head: bytes, size: int) -> tuple[tuple[int, int], ...]:
    """The place of the PE signature; what is not read need not be kept."""
    start = int.from_bytes(head[60:64], "little")
    return ((0, 64), (start, start + 4)) if 64 <= start <= size - 4 else ((0, min(size, 64)),)


def read(path: str, source: ByteSource) -> tuple[UnreadObject, ...]:
    """Say that the image is there and was not read; a DOS program or a text is no object."""
    if source.size < 64:
        return ()
    start = int.from_bytes(source.read(60, 4), "little")
    if start > _LARGEST_STUB or start + 4 > source.size or source.read(start, 4) != b"PE\0\0":
        return ()
    return (UnreadObject(path=path, format=Format.PE, reason="PE is not read yet"),)
