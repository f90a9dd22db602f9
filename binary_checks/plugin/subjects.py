"""What the user named to be judged: package files, installed packages, and facts about them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.utils import canonicalize_name

from binary_checks import packages
from binary_checks.errors import BinaryChecksError, PackageError, ProfileError
from binary_checks.gather.subject import Subject, describe
from binary_checks.plugin.failures import misused

if TYPE_CHECKING:
    from binary_checks.documents.facts_reader import Statement
    from binary_checks.places import Sandbox

INSTALLED = "installed:"
_PATIENCE = 60.0  # seconds in which an interpreter must have started


Asked = dict[Path, frozenset[str]]
"""Which checks were asked for of each package; none is all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """What the user named: packages, and what is left for pytest to collect in its own way."""

    folder: Path  # from which relative paths count
    files: Asked  # absolute paths, links not resolved, as pytest spells them
    installed: Asked  # "installed:NAME" in the current folder
    others: tuple[str, ...]

    @property
    def packages(self) -> Asked:
        """All packages, in the order in which they are judged."""
        return {**self.files, **self.installed}


def read_arguments(config: pytest.Config) -> Named:
    """Tell packages from other arguments, which stay as they are.

    Where nothing but an installed package was named there is nothing else to collect.
    """
    folder = config.invocation_params.dir
    installed: Asked = {}
    for argument in dict.fromkeys((*_options(config), *filter(_is_installed, config.args))):
        name, _, check = argument.removeprefix(INSTALLED).partition("::")
        _ask(installed, folder / f"{INSTALLED}{canonicalize_name(name)}", check)
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    left = [each for each in config.args if not _is_installed(each)] if named else config.args
    files: Asked = {}
    others = []
    for argument in left if named or not installed else ():
        _demand_nameable(folder, argument)
        name, _, check = argument.partition("::")
        if packages.recognises(Path(name)):
            _ask(files, Path(os.path.normpath(folder / name)), check)
        else:
            others.append(argument)
    _demand_files(files)
    return Named(folder=folder, files=files, installed=installed, others=tuple(others))


def _options(config: pytest.Config) -> Iterable[str]:
    return (f"{INSTALLED}{name}" for name in config.option.binary_installed)


def _is_installed(argument: str) -> bool:
    return argument.startswith(INSTALLED)


def _ask(found: Asked, package: Path, check: str) -> None:
    """Asked for as a whole and by a check too, it is asked for as a whole."""
    known = found.get(package, frozenset([check]))
    found[package] = known | {check} if check and known else frozenset()


def _demand_files(paths: Iterable[Path]) -> None:
    for path in paths:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "no regular file"
            found = found if path.exists() else "no such file"
            raise misused(f"{path.name}: {found}")


def _demand_nameable(folder: Path, argument: str) -> None:
    """Refuse a package whose file's name pytest takes for something else, or cannot pass on."""
    name = argument.split("::", 1)[0]
    if "::" in argument and packages.recognises(Path(argument)) and (folder / argument).exists():
        raise misused(f"{argument}: pytest takes '::' in a file's name for a test: rename it")
    if packages.recognises(Path(name)):
        if "[" in name:
            raise misused(f"{name}: pytest takes '[' in a file's name for a parameter: rename it")
        if not _is_text(name):
            raise misused(f"{name}: the file's name is no text (UTF-8): rename it")


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


def find_subjects(
    config: pytest.Config, named: Named, python: Path, sandbox: Sandbox | None
) -> list[Subject]:
    """Every package named, with the facts that were given of it.

    Raises pytest.UsageError, one line, for a name that is not installed and facts of nothing here.
    """
    folder = config.invocation_params.dir
    subjects = [Subject(path=path) for path in named.files]
    try:
        static = config.option.binary_static
        subjects += _find_installed(tuple(named.installed), python, sandbox, static=static)
        for name in dict.fromkeys(config.option.binary_facts):
            from binary_checks.documents.facts_reader import restore

            subjects = _spread(restore(folder / name), subjects)
    except (ProfileError, PackageError) as error:
        raise misused(str(error)) from None
    except BinaryChecksError as error:
        raise misused(f"--binary-python: {error}") from None
    return subjects


def _find_installed(
    named: tuple[Path, ...], python: Path, sandbox: Sandbox | None, *, static: bool
) -> Iterable[Subject]:
    """Find each by reading alone; where that is not enough, unless static, as an import would."""
    if not named:
        return
    from binary_checks import places
    from binary_checks.packages.installed import find_installation

    read = places.list_folders(python, timeout=_PATIENCE, site=False)
    for path in named:
        name = path.name.removeprefix(INSTALLED)
        found = find_installation(name, read.search, read.prefix)
        if found is None and read.unread and not static:
            run = places.list_folders(python, timeout=_PATIENCE, sandbox=sandbox)
            found = find_installation(name, run.search, run.prefix)
        if found is None:
            lost = _say_what_is_lost(read.unread) if static else ""
            raise ProfileError(f"--binary-installed {name}: not installed for {python}{lost}")
        yield Subject(path=path, installation=found)


def _say_what_is_lost(unread: tuple[str, ...]) -> str:
    """That code in .pth files may say more, as editable installs and coverage put it there."""
    if not unread:
        return ""
    few = ", ".join(unread[:3]) + ", …" * (len(unread) > 3)
    return f", unless code of {few} adds its folder, which static mode does not run"


def _spread(statement: Statement, subjects: list[Subject]) -> list[Subject]:
    """Give the facts to the package that they are about."""
    trusting = [subject.trust(statement) for subject in subjects]
    if not any(trusting):
        known = ", ".join(f"{each.path.name} ({each.identify()})" for each in subjects)
        about = f"{statement.package.path.name} ({', '.join(describe(statement))})"
        raise ProfileError(f"--binary-facts: {about}: not about {known or 'any package named'}")
    return [new or old for new, old in zip(trusting, subjects, strict=True)]
