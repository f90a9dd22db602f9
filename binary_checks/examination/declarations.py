"""Finding the checks and gatherers of a run, and validating those of a project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from inspect import Parameter
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, TypeAlias

from binary_checks.declaring import (
    Check,
    Gatherer,
    find_checks,
    find_gatherers,
    is_ours,
    load_checks,
)
from binary_checks.errors import ProfileError
from binary_checks.examination.facts import find_gatherer
from binary_checks.model import ObjectFile, Request
from binary_checks.packages import OwnKind

Gatherers: TypeAlias = Mapping[type, Gatherer[..., Any]]


def find_declared(
    modules: Iterable[ModuleType], checks: Iterable[Check[Any]] = ()
) -> tuple[tuple[Check[Any], ...], Gatherers]:
    """Return every check, and the gatherers of the given modules.

    The checks are ours, those in the modules, and the given ones. Raises ProfileError for a
    declaration that names a fact without a gatherer.
    """
    modules = tuple(modules)
    gatherers = find_gatherers(modules)
    every = tuple(dict.fromkeys((*find_checks(modules), *checks)))

    for check in every:
        require_sound_declaration(check, gatherers)
    for gatherer in gatherers.values():
        require_gatherable(gatherer, gatherers)
    return every, gatherers


def require_sound_declaration(check: Check[Any], gatherers: Gatherers) -> None:
    """Raise ProfileError unless the check's signature names the facts to judge, by their classes.

    The tests also apply this to the checks of this project.
    """
    if is_ours(check):
        return
    kinds = _read_kinds(check, f"check {check.id}")
    if not kinds:
        raise ProfileError(f"check {check.id}: it has no parameter that names what it judges")
    for kind in kinds:
        if kind is NoneType:
            continue
        if not isinstance(kind, type):
            raise ProfileError(f"check {check.id}: {kind} is not a fact of a package")
        if not (issubclass(kind, (Request, ObjectFile)) or find_gatherer(kind, gatherers)):
            if is_ours(kind) or kind.__module__ == "builtins":
                raise ProfileError(f"check {check.id}: {kind} is not a fact of a package")
            name = kind.__name__
            raise ProfileError(f"check {check.id}: no function with @gathers({name}) gathers it")
    for option in check.options.values():
        if option.default is Parameter.empty:
            raise ProfileError(f"check {check.id}: its option {option.name!r} has no default")


def require_gatherable(gatherer: Gatherer[..., Any], gatherers: Gatherers) -> None:
    """Raise ProfileError if a project's own gatherer requests a fact that has no gatherer."""
    for kind in _read_kinds(gatherer, repr(gatherer)):
        given = isinstance(kind, type) and (
            issubclass(kind, Request) or find_gatherer(kind, gatherers)
        )
        if not (given or is_ours(kind) or kind is NoneType):
            raise ProfileError(f"{gatherer!r}: it requests {kind}, for which there is no gatherer")


def _read_kinds(declared: Check[Any] | Gatherer[..., Any], where: str) -> list[Any]:
    try:
        return [kind for kinds in declared.facts for kind in kinds]
    except NameError as error:
        raise ProfileError(f"{where}: parameter without a known type: {error}") from None


def load_own_kinds(paths: Iterable[Path]) -> tuple[OwnKind, ...]:
    """Import a profile's files of kinds; each may also have checks that judge its kind.

    Raises a ProfileError of one line for any exception, and for a missing function.
    """
    return tuple(OwnKind(path, _load(path, "kinds")) for path in dict.fromkeys(paths))


def load_own_modules(paths: Iterable[Path], kinds: Iterable[OwnKind] = ()) -> list[ModuleType]:
    """Return the modules of a profile that may have checks: its files of checks, and its kinds.

    A file that is both is imported once. Raises a ProfileError of one line for any exception.
    """
    loaded = {kind.path: kind.module for kind in kinds}
    return [*loaded.values(), *(_load(path, "checks") for path in paths if path not in loaded)]


def _load(path: Path, key: str) -> ModuleType:
    try:
        return load_checks(str(path), f"binary_checks_profile.{path.stem}")
    except (Exception, SystemExit) as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ProfileError(f"{key} file {path}: {line}") from None
