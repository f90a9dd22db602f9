"""Writes YAML as generated files have it: of equal values the same bytes, on every Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import yaml

from binary_checks.fleet.ci.action_pins import ActionPin
from binary_checks.fleet.ci.pipeline import Pipeline

_MARK = "by `binary-checks ci write`"
_PINNED = re.compile(r"(?m)^(?P<before> *(?:- )?uses: )(?P<action>\S+@[0-9a-f]{40})$")
_NUMERIC = re.compile(r"[-+]?\.?[0-9][^\s:]*|[-+]?\.(?:inf|nan)", re.IGNORECASE)
"""What YAML 1.2 may read as a number: 1e3, 0o7, 08; PyYAML quotes what 1.1 would."""
_WIDE = 1 << 20  # columns: a line is never folded


class OneLine(dict[str, Any]):
    """A mapping that is written in one line, as the cells of a matrix are."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write what is there twice twice: anchors are no schema's friends."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        """Indent lists below their key."""
        super().increase_indent(flow, False)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _NUMERIC.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_line(dumper: yaml.SafeDumper, mapping: OneLine) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", mapping, flow_style=True)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(OneLine, _represent_line)


def heading(pipeline: Pipeline) -> str:
    """What the first line of every generated file says; a comment's marks are the caller's."""
    return f"Generated from {pipeline.source} {_MARK}; change that file, and write it again."


def made_from(text: str) -> str:
    """The matrix that a file says it is generated from; "" for a file that is not ours."""
    first = text.partition("\n")[0]
    found = re.search(rf"Generated from (.+?) {re.escape(_MARK)}", first)
    return found[1] if found else ""


def write_yaml(document: Mapping[str, Any], pipeline: Pipeline) -> str:
    """The document below its heading, in its own order, with the tag behind each pinned action."""
    text = dump_yaml(document)
    pins = {pin.used: pin for pin in pipeline.settings.actions.values()}
    return f"# {heading(pipeline)}\n{_PINNED.sub(lambda found: _tag(found, pins), text)}"


def dump_yaml(document: Mapping[str, Any]) -> str:
    """What PyYAML makes of a document, ten times as fast.

    Its blocks are put together here, and every text, number and line is PyYAML's own: there are
    few of them, and each stands in the file of every cell.
    """
    try:
        return "\n".join([*_write_block(document, ""), ""])
    except _NotPutTogetherError:
        return _dump(dict(document))


class _NotPutTogetherError(Exception):
    """What depends on more than itself: a key behind a question mark, empty lines at an end."""


def _write_block(value: Any, pad: str) -> Iterator[str]:
    """The lines of a mapping or a list that has anything in it."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            head = f"{pad}{_write_key(key)}:"
            if _is_block(each):
                yield head
                yield from _write_block(each, f"{pad}  ")
            else:
                yield from _write_leaf(head, each, pad)
        return
    for each in value:
        if _is_block(each):
            first, *others = _write_block(each, f"{pad}  ")
            yield f"{pad}- {first[len(pad) + 2 :]}"
            yield from others
        else:
            yield from _write_leaf(f"{pad}-", each, pad)


def _is_block(value: Any) -> bool:
    return isinstance(value, (Mapping, list, tuple)) and bool(value) and type(value) is not OneLine


def _write_leaf(head: str, value: Any, pad: str) -> Iterator[str]:
    """What stands behind a key or a dash, in its line or, for a text of several, below it."""
    if isinstance(value, (Mapping, list, tuple)):
        yield f"{head} {_write_flow(value)}"
        return
    first, *others = _write_scalar(value, _tell_apart(value))
    yield f"{head} {first}"
    yield from (f"{pad}{line}" if line else "" for line in others)


def _write_flow(value: Any) -> str:
    """A value in one line, with all that is in it."""
    if isinstance(value, Mapping):
        pairs = (
            f"{_write_key(key, flow=True)}: {_write_flow(each)}" for key, each in value.items()
        )
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_write_flow, value))}]"
    return _write_word(value, _tell_apart(value))


def _tell_apart(value: object) -> str:
    """What sets equal values apart that are written differently: 1, True and 1.0; 0.0 and -0.0."""
    return repr(value) if isinstance(value, float) else type(value).__name__


@lru_cache(maxsize=1 << 16)
def _write_scalar(value: object, _kind: str) -> Sequence[str]:
    lines = _dump({"k": value})[3:-1].split("\n")
    if lines[-1] == "...":  # after empty lines at the end of a document
        raise _NotPutTogetherError
    return lines


@lru_cache(maxsize=1 << 16)
def _write_word(value: object, _kind: str) -> str:
    return _dump([value], flow=True)[1:-2]


@lru_cache(maxsize=1 << 12)
def _write_key(key: str, *, flow: bool = False) -> str:
    text = _dump({key: 0}, flow=True)[1:-5] if flow else _dump({key: 0})[:-4]
    if text.startswith("? "):
        raise _NotPutTogetherError
    return text


def _dump(value: object, *, flow: bool = False) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, width=_WIDE, default_flow_style=flow
    )
    return text


def _tag(found: re.Match[str], pins: Mapping[str, ActionPin]) -> str:
    return f"{found[0]} # {pins[found['action']].tag}"
