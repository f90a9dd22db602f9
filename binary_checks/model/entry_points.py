"""What a distribution's entry points name, and what came of loading them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from binary_checks.model.packages import Distribution
from binary_checks.model.probes import ProbeReport, Step

_REFERENCE = re.compile(
    r"\s*(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*"
    r"(?::\s*(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)\s*)?(?:\[(?P<extras>[^\]]*)\]\s*)?"
)
"""An object reference (entry points specification, "Data model")."""
_SCRIPTS = frozenset({"console_scripts", "gui_scripts"})
HOST_OF = {"pytest11": "pytest"}
"""Groups whose entry points are loaded with any use of the program that looks for them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPoint:
    """An entry point whose value is an object reference."""

    group: str
    name: str
    module: str
    attribute: str = ""  # dotted; "" where the module itself is meant
    extras: str = ""  # what stands in brackets after it

    @property
    def is_script(self) -> bool:
        """Whether installers make a command of it."""
        return self.group in _SCRIPTS

    @property
    def is_always_loaded(self) -> bool:
        """Whether users run it, or load it with any use of the program that looks for it."""
        return self.is_script or self.group in HOST_OF

    def say(self) -> str:
        """Name it as the beginning of a sentence."""
        target = f"{self.module}:{self.attribute}" if self.attribute else self.module
        what = "the command" if self.is_script else f"the entry point {self.group!r}"
        return f"{what} {self.name} = {target}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BadReference:
    """A command whose value names no function: installers refuse the package."""

    name: str
    value: str


def read_entry_points(package: Distribution) -> Iterator[EntryPoint | BadReference]:
    """Read all whose values are object references; other groups may have a form of their own."""
    for group, name, value in package.entry_points:
        match = _REFERENCE.fullmatch(value)
        if match is not None and (match["attribute"] or group not in _SCRIPTS):
            yield EntryPoint(
                group=group,
                name=name,
                module=match["module"],
                attribute=match["attribute"] or "",
                extras=(match["extras"] or "").strip(),
            )
        elif group in _SCRIPTS:
            yield BadReference(name=name, value=value)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedEntryPoint:
    """What came of loading one entry point."""

    point: EntryPoint
    step: Step  # name is the module's
    exception: str = ""  # the class of what was raised: "AttributeError"
    imported: bool = False  # the module was imported, whatever came of its attribute
    callable: bool = True  # of a command: whether what it names can be called


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedEntryPoints(ProbeReport):
    """All entry points that are object references, loaded where the package is installed.

    The module of commands is imported in a process of its own, as when a user starts one, and so
    is that of a group that is always loaded; those of another group in one process, as by the
    program that looks for them, and again in one of their own where that fails.
    """

    points: tuple[LoadedEntryPoint, ...] = ()
    version: tuple[int, int] = (0, 0)  # of the Python that loaded them
    requirements_installed: bool = False  # an installer put there what the package requires
    lacking: tuple[str, ...] = ()  # where none did: required distributions that are not there
    untried: tuple[EntryPoint, ...] = ()  # those for which there was no time left
    limit: str = ""  # which limit that was, the end of a sentence
