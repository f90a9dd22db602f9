"""How the page spells sizes, and names that are too long for their place."""

from __future__ import annotations


def spell_size(count: float) -> str:
    """Bytes as people read them, in powers of 1000 as indexes show them."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{round(count):,} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"


def shorten(text: str, longest: int) -> str:
    """The text with its middle left out where it is longer than that."""
    if len(text) <= longest:
        return text
    kept = max(longest - 1, 2)
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
