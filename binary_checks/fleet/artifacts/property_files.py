"""What is known of an artifact as properties, one ``key=value`` a line, as Java and others read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from binary_checks.fleet.artifacts.artifact import FILE_AXES, Artifact

_IN_KEYS = re.compile(r"[=:#! ]")


def write_properties(artifact: Artifact) -> bytes:
    """The text of ``<name>.meta``: of equal artifacts the same bytes, and no time in it."""
    rows = sorted(_list_properties(artifact).items())
    lines = (f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in rows)
    return "".join(lines).encode("ascii")


def _list_properties(artifact: Artifact) -> Mapping[str, str]:
    plain = ("file_name", "sha256", "kind", "project", "version", "commit", *FILE_AXES)
    rows = {name: getattr(artifact, name) for name in (*plain, "requires_python", "subdir")}
    rows["size"] = str(artifact.size)
    rows["licenses"] = "; ".join(artifact.licenses)
    rows.update((f"evidence.{axis}", text) for axis, text in artifact.evidence.items())
    rows.update(_list_linked(artifact))
    rows.update((each.path, each.sha256) for each in artifact.companions)
    return {name: value for name, value in rows.items() if value}


def _list_linked(artifact: Artifact) -> Iterator[tuple[str, str]]:
    """A library may be linked in both ways, in different objects of a package."""
    told: dict[str, list[str]] = {}
    for each in artifact.linked:
        version = f" {each.version}" if each.version else ""
        told.setdefault(each.library, []).append(f"{each.how}{version} ({each.evidence})")
    yield from ((f"linked.{library}", "; ".join(ways)) for library, ways in told.items())


def _escape(text: str, *, key: bool = False) -> str:
    """As java.util.Properties reads it: backslashes, line ends and whatever is not ASCII."""
    text = text.replace("\\", "\\\\")
    if key:
        text = _IN_KEYS.sub(lambda found: f"\\{found[0]}", text)
    elif text[:1] == " ":
        text = f"\\{text}"
    return "".join(each if " " <= each <= "~" else _escape_unit(each) for each in text)


def _escape_unit(char: str) -> str:
    """A character in UTF-16, of which those beyond the first plane take two units."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
