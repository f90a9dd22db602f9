"""Writes YAML as generated files have it: of equal values the same bytes, on every Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    text = yaml.dump(
        dict(document), Dumper=_Dumper, sort_keys=False, width=_WIDE, default_flow_style=False
    )
    pins = {pin.used: pin for pin in pipeline.settings.actions.values()}
    return f"# {heading(pipeline)}\n{_PINNED.sub(lambda found: _tag(found, pins), text)}"


def _tag(found: re.Match[str], pins: Mapping[str, ActionPin]) -> str:
    return f"{found[0]} # {pins[found['action']].tag}"
