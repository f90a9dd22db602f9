"""What the plugin knows during one run, in every worker and in the controller."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from binary_checks import packages
from binary_checks.check import Check, find_checks, load_checks
from binary_checks.errors import ProfileError
from binary_checks.facts import Facts, Settings, Shelf
from binary_checks.ledger import Ledger
from binary_checks.profile import Profile, find_profile, load_profile, validate


@dataclass(kw_only=True)
class Session:
    """The packages the user named, what is expected of them, and what is known so far."""

    packages: dict[Path, str]  # named package -> node id
    settings: Settings
    shelf: Shelf
    ledger: Ledger
    checks: tuple[Check[Any], ...] = ()  # those that the profile selects
    facts: dict[Path, Facts] = field(default_factory=dict)
    unreadable: set[Path] = field(default_factory=set)  # packages of which that was said already
    left_out: int = 0  # runtime checks that --binary-static deselected

    @property
    def profile(self) -> Profile:
        """What the project expects."""
        return self.settings.profile


SESSION = pytest.StashKey[Session]()


def open_session(config: pytest.Config) -> Session:
    """Find the named packages and, if there are any, read the profile and the checks.

    Raises pytest.UsageError with one line.
    """
    option, folder = config.option, config.invocation_params.dir
    named = node_ids(_named_packages(config), folder)
    profile = Profile()
    checks: tuple[Check[Any], ...] = ()
    if named:
        try:
            profile, checks = _profile_and_checks(config, option.binary_profile, folder)
        except ProfileError as error:
            raise pytest.UsageError(str(error)) from None
    python = option.binary_python or sys.executable
    return Session(
        packages=named,
        checks=checks,
        settings=Settings(profile=profile, python=_existing(folder, python)),
        shelf=Shelf(_existing(folder, name) for name in option.binary_with),
        ledger=Ledger(packages=tuple(named.values()), required=frozenset(option.binary_require)),
    )


def _named_packages(config: pytest.Config) -> tuple[Path, ...]:
    """Every argument that is a package; absolute, links not resolved, as pytest spells paths."""
    folder = config.invocation_params.dir
    named = (Path(os.path.normpath(folder / arg.split("::", 1)[0])) for arg in config.args)
    return tuple(dict.fromkeys(path for path in named if packages.recognises(path)))


def _existing(folder: Path, name: str) -> Path:
    path = Path(os.path.normpath(folder / name))
    if not path.exists():
        raise pytest.UsageError(f"no such file or folder: {name}")
    return path


def _profile_and_checks(
    config: pytest.Config, name: str | None, folder: Path
) -> tuple[Profile, tuple[Check[Any], ...]]:
    """The profile, and the checks it selects of ours, the conftests' and its own."""
    profile = load_profile(name) if name else find_profile(folder)
    modules = [plugin for plugin in config.pluginmanager.get_plugins() if _is_conftest(plugin)]
    modules += [_load_own_checks(path) for path in profile.checks]
    every = find_checks(modules)
    profile = validate(profile, every)
    return profile, tuple(check for check in every if profile.selects(check))


def _is_conftest(plugin: object) -> bool:
    return Path(getattr(plugin, "__file__", None) or "").name == "conftest.py"


def _load_own_checks(path: Path) -> Any:
    try:
        return load_checks(str(path), f"binary_checks_profile.{path.stem}")
    except (Exception, SystemExit) as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ProfileError(f"checks file {path}: {line}") from None


def node_ids(paths: Sequence[Path], folder: Path) -> dict[Path, str]:
    """For each package a node id that no other has.

    Relative to the folder when below it, else the file name, lengthened by parents until unique.
    """
    inside = {p: p.relative_to(folder).as_posix() for p in paths if p.is_relative_to(folder)}
    return {path: inside.get(path) or _short_name(path, paths) for path in paths}


def _short_name(path: Path, paths: Iterable[Path]) -> str:
    rivals = [other.parts for other in paths if other != path]
    for length in range(1, len(path.parts)):
        tail = path.parts[-length:]
        if not any(rival[-length:] == tail for rival in rivals):
            return "/".join(tail)
    return path.as_posix()
