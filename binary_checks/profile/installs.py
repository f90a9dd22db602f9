"""The ways in which a project's users install it: the tables ``[[installs]]`` of a profile."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from binary_checks.errors import ProfileError
from binary_checks.model import INSTALL_NAME, INSTALLERS, InstallWay
from binary_checks.profile.toml_values import convert_table

_KEYS: Mapping[str, Any] = {
    "name": str,
    "requires": tuple[str, ...],
    "options": tuple[str, ...],
    "tool": str,
    "command": str,
}
_FLAGS = ("--force-reinstall", "--no-cache-dir", "--no-deps", "--no-index", "--pre", "--upgrade")
_VALUED = ("--extra-index-url", "--find-links", "--index-url")
_SHORT: Mapping[str, str] = {
    "-i": "--index-url",
    "-f": "--find-links",
    "-U": "--upgrade",
    "--no-cache": "--no-cache-dir",
}
_OF_NO_EFFECT = ("-q", "--quiet", "-v", "--verbose", "--disable-pip-version-check", "--no-input")
"""Options that only change what an installer prints."""
_COMMANDS = re.compile(
    r"(?:\$ )?(?:(?:python[\d.]*|py) -m )?(?:(?P<pip>pip[\d.]*)|(?P<uv>uv) pip) install ",
)
_FEW_WORDS = 200


def read_installs(tables: Sequence[Any], where: str) -> tuple[InstallWay, ...]:
    """Read the tables. Raises ProfileError."""
    found: dict[str, InstallWay] = {}
    for index, table in enumerate(tables, 1):
        place = f"{where}: installs, entry {index}"
        if not isinstance(table, dict):
            raise ProfileError(f"{place}: not a table")
        way = _read(table, place)
        if way.name in found:
            raise ProfileError(f"{place}: there is another entry with the name {way.name!r}")
        found[way.name] = way
    return tuple(found.values())


def _read(table: Mapping[str, Any], where: str) -> InstallWay:
    values = convert_table(table, _KEYS, where)
    name = values.get("name", "")
    if not INSTALL_NAME.fullmatch(name):
        raise ProfileError(f"{where}: name: {name!r:.80} is not a name such as 'numpy-1'")
    tool = values.get("tool", "")
    if tool and tool not in INSTALLERS:
        raise ProfileError(f"{where}: tool: {tool!r:.80} is none of {', '.join(INSTALLERS)}")
    way = InstallWay(
        name=name,
        tool=tool,
        requires=tuple(_require(text, where) for text in values.get("requires", ())),
        options=tuple(_read_options(values.get("options", ()), f"{where}: options")),
    )
    command = " ".join(values.get("command", "").split())
    return _add_command(way, command, f"{where}: command") if command else way


def _require(text: str, where: str) -> str:
    try:
        Requirement(text)
    except InvalidRequirement:
        raise ProfileError(f"{where}: {text:.80}: not a requirement") from None
    return text


def _add_command(way: InstallWay, command: str, where: str) -> InstallWay:
    """Return the way with the requirements, the options and the installer of a command."""
    match = _COMMANDS.match(command)
    try:
        words = shlex.split(command[match.end() :]) if match else []
    except ValueError as error:
        raise ProfileError(f"{where}: {error}") from None
    if match is None or not words or len(words) > _FEW_WORDS:
        raise ProfileError(f"{where}: {command:.80}: not 'pip install …' or 'uv pip install …'")
    tool = "pip" if match["pip"] else "uv"
    if way.tool not in ("", tool):
        raise ProfileError(f"{where}: it uses {tool}, but 'tool' says {way.tool}")
    plain: list[str] = []
    options = tuple(_read_options(words, where, plain))
    return replace(
        way,
        command=command,
        tool=tool,
        requires=(*way.requires, *(_require(text, where) for text in plain)),
        options=(*way.options, *options),
    )


def _read_options(
    words: Sequence[str], where: str, plain: list[str] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield each option with its value; add other words to ``plain``, or refuse them."""
    rest = iter(words)
    for word in rest:
        spelled, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        name = _SHORT.get(spelled, spelled)
        if name in _OF_NO_EFFECT:
            continue
        if name in _VALUED:
            value = value if equals else next(rest, "")
            if not value or value.startswith("-"):
                raise ProfileError(f"{where}: {spelled}: it has no value")
            yield name, value
        elif name in _FLAGS and not equals:
            yield name, ""
        elif word.startswith("-") or plain is None:
            known = ", ".join(sorted((*_FLAGS, *_VALUED)))
            raise ProfileError(f"{where}: {word:.80}: expected one of {known}")
        else:
            plain.append(word)
