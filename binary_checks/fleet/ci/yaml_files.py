"""Writes YAML by PyYAML: equal documents have the same bytes, on every Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from binary_checks.fleet.ci.generated_files import heading
from binary_checks.fleet.ci.pipeline import Pipeline

_PINNED = re.compile(r"(?m)^(?P<before> *(?:- )?uses: )(?P<action>\S+@[0-9a-f]{40})$")
_NUMERIC = re.compile(r"[-+]?\.?[0-9][^\s:]*|[-+]?\.(?:inf|nan)", re.IGNORECASE)
"""What YAML 1.2 may read as a number: 1e3, 0o7, 08; PyYAML quotes what 1.1 would."""
_STEP = {"run", "uses", "bash", "task", "script"}
"""A mapping with one of these keys has a line for each of its keys."""
_HARD = {"\n", "'"}
_WIDE = 1 << 20  # columns: a text is never folded

_Fastest: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Fastest):  # type: ignore[misc] # libyaml's, where PyYAML was built with it
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write what is there twice twice: no schema of a CI system knows anchors."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else "'" if _NUMERIC.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_mapping(dumper: yaml.SafeDumper, mapping: dict[str, Any]) -> yaml.MappingNode:
    short = _is_short([*mapping, *mapping.values()]) and not _STEP & mapping.keys()
    tag = "tag:yaml.org,2002:map"
    return dumper.represent_mapping(tag, mapping, flow_style=short)


def _represent_list(dumper: yaml.SafeDumper, items: Sequence[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=_is_short(items))


def _is_short(values: Iterable[Any]) -> bool:
    """Whether a mapping or a list is written in one line: it has plain values, without a quote.

    In one line a quote stands in quotes, where readers of expressions would not know it.
    """
    return not any(
        isinstance(each, (Mapping, list, tuple)) or _HARD & {*str(each)} for each in values
    )


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(dict, _represent_mapping)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(tuple, _represent_list)


def write_yaml(document: Mapping[str, Any], pipeline: Pipeline) -> str:
    """The document below its heading, in its own order, with the tag behind each pinned action."""
    pins = {pin.used: pin.tag for pin in pipeline.settings.actions.values()}

    def add_tag(found: re.Match[str]) -> str:
        return f"{found[0]} # {pins[found['action']]}"

    return f"# {heading(pipeline)}\n{_PINNED.sub(add_tag, dump_yaml(document))}"


def dump_yaml(document: Mapping[str, Any]) -> str:
    """The document as YAML, in its own order."""
    text: str = yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, width=_WIDE)
    return text
