"""Takes entries out of the text of a list, and leaves every other line as somebody wrote it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from binary_checks.errors import ProfileError
from binary_checks.profile.known import TABLE, KnownList, read_known_list

_HEADER = re.compile(rf"[ \t]*\[\[[ \t]*{TABLE}[ \t]*\]\][ \t]*(?:#.*)?\r?\n?")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")  # TOML has no other ends of lines; str.splitlines has nine
_QUOTED = re.compile(
    r"""(?P<lines>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5})"""
    r"""|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*""",
    re.DOTALL,
)
"""Strings and comments; those of several lines may have any line in them."""


def find_headers(text: str, count: int) -> list[int]:
    """The lines, from 0, in which the entries begin; none where they are not written so."""
    bare = _QUOTED.sub(_blank, text)
    lines = _LINE.findall(bare)
    found = [number for number, line in enumerate(lines) if _HEADER.fullmatch(line)]
    return found if len(found) == count else []


def _blank(found: re.Match[str]) -> str:
    """A string of several lines without what stands in them; anything else as it is."""
    return "\n" * found[0].count("\n") if found["lines"] else found[0]


def remove_entries(content: bytes, gone: Collection[int], where: str) -> bytes:
    """The list without the entries of these numbers, and the comments that belong to them.

    A comment belongs to an entry where no empty line parts it from that. Raises ProfileError for
    a list whose entries cannot be told by their lines.
    """
    before = read_known_list(content, where)
    lines = _LINE.findall(content.decode("utf-8"))
    headers = find_headers(content.decode("utf-8"), len(before.entries))
    if gone and not headers:
        raise ProfileError(f"{where}: its entries do not begin with [[{TABLE}]]: edit it by hand")
    left = list[str]()
    at = 0
    for number in sorted(gone):
        start, end = _find_range(lines, headers, number)
        left += lines[at:start]
        at = end
    left += lines[at:]
    edited = "".join(left).encode("utf-8")
    _demand_rest(before, read_known_list(edited, where), gone, where)
    return edited


def _find_range(lines: Sequence[str], headers: Sequence[int], number: int) -> tuple[int, int]:
    """From its first line to behind the empty ones after it."""
    start = _find_start(lines, headers[number])
    following = headers[number + 1] if number + 1 < len(headers) else len(lines)
    stop = _find_start(lines, following) if following < len(lines) else following
    end = stop
    while end > headers[number] and _is_aside(lines[end - 1]):
        end -= 1  # to behind its last key
    while end < stop and lines[end].lstrip().startswith("#"):
        end += 1  # comments right below
    while end < stop and not lines[end].strip():
        end += 1
    return start, end


def _find_start(lines: Sequence[str], header: int) -> int:
    while header and lines[header - 1].lstrip().startswith("#"):
        header -= 1
    return header


def _is_aside(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _demand_rest(before: KnownList, after: KnownList, gone: Collection[int], where: str) -> None:
    """Raise ProfileError unless the rest is what it was: a text may look like a header."""
    rest = [each for number, each in enumerate(before.entries) if number not in gone]
    same = (before.issued, before.valid_until) == (after.issued, after.valid_until)
    if not same or rest != [*after.entries]:
        raise ProfileError(f"{where}: its entries cannot be told by their lines: edit it by hand")
