"""The entry points of a distribution, and the results of loading them."""

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
"""Entry point group -> the program that loads the group's entry points whenever it runs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EntryPoint:
    """An entry point whose value is an object reference."""

    group: str
    name: str
    module: str
    attribute: str = ""  # dotted; "" for the module itself
    extras: str = ""  # the text in brackets after the object reference

    @property
    def is_script(self) -> bool:
        """Whether installers create a command for the entry point."""
        return self.group in _SCRIPTS

    @property
    def is_always_loaded(self) -> bool:
        """Whether users run the entry point, directly or by running the program of its group."""
        return self.is_script or self.group in HOST_OF

    def describe(self) -> str:
        """Return a name for the entry point that can begin a sentence."""
        target = f"{self.module}:{self.attribute}" if self.attribute else self.module
        what = "the command" if self.is_script else f"the entry point {self.group!r}"
        return f"{what} {self.name} = {target}"


@dataclass(frozen=True, kw_only=True, slots=True)
class BadReference:
    """A command whose value does not name a function: installers refuse the package."""

    name: str
    value: str


def read_entry_points(package: Distribution) -> Iterator[EntryPoint | BadReference]:
    """Yield entry points that are object references, and commands that are not.

    Entry points of other groups may have another syntax; those that are not object references are
    skipped.
    """
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
    """The result of loading one entry point."""

    point: EntryPoint
    step: Step  # named after the module
    exception: str = ""  # class of the exception: "AttributeError"
    imported: bool = False  # whether the module was imported, even if its attribute failed
    callable: bool = True  # for a command: whether the loaded object is callable


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedEntryPoints(ProbeReport):
    """All entry points that are object references, loaded where the package is installed.

    Each command's module is imported in a separate process, as when a user runs the command; the
    same holds for entry points of a group that is always loaded. All entry points of any other
    group are loaded in one process, as the program that uses the group does. An entry point that
    fails there is loaded again in a separate process.
    """

    points: tuple[LoadedEntryPoint, ...] = ()
    version: tuple[int, int] = (0, 0)  # version of the Python that loaded them
    # whether an installer installed the package's requirements
    requirements_installed: bool = False
    # required distributions that are missing, if no installer installed requirements
    lacking: tuple[str, ...] = ()
    untried: tuple[EntryPoint, ...] = ()  # not loaded because the time was used up
    limit: str = ""  # the time limit, as the end of a sentence
