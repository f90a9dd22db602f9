"""What the user named to be judged: package files, installed packages, and facts about them."""

from __future__ import annotations

import os
from collections.abc import Iterable
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


Asked = dict[str, frozenset[str]]
"""Which checks were asked for of each package; none is all."""


def take_installed(config: pytest.Config) -> Asked:
    """The names of installed packages, and which checks were asked for of each.

    They are taken out of pytest's arguments, which would look for such files, and where nothing
    else was named there is nothing else to collect.
    """
    option = [f"{INSTALLED}{name}" for name in config.option.binary_installed]
    arguments = [argument for argument in config.args if argument.startswith(INSTALLED)]
    found: Asked = {}
    for argument in dict.fromkeys((*option, *arguments)):
        name, _, check = argument.removeprefix(INSTALLED).partition("::")
        _ask(found, canonicalize_name(name), check)
    if found:
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        config.args = [each for each in config.args if named and each not in arguments]
    return found


def _ask(found: Asked, package: str, check: str) -> None:
    """Asked for as a whole and by a check too, it is asked for as a whole."""
    known = found.get(package, frozenset([check]))
    found[package] = known | {check} if check and known else frozenset()


def take_files(config: pytest.Config) -> dict[Path, frozenset[str]]:
    """Every package file that was named, and which checks were asked for of it.

    Paths are absolute, links not resolved, as pytest spells them. They are taken out of pytest's
    arguments: for each of a thousand it would list their folder, and make nodes of all in it, anew.
    """
    folder = config.invocation_params.dir
    found: Asked = {}
    others = []
    for argument in config.args:
        _demand_nameable(folder, argument)
        name, _, check = argument.partition("::")
        if packages.recognises(Path(name)):
            _ask(found, os.path.normpath(folder / name), check)
        else:
            others.append(argument)
    if found:
        config.args = others
    files = {Path(name): checks for name, checks in found.items()}
    _demand_files(files)
    return files


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
    config: pytest.Config,
    files: Iterable[Path],
    names: Iterable[str],
    python: Path,
    sandbox: Sandbox | None,
) -> dict[Path, Subject]:
    """Every package named, with the facts that were given of it.

    Raises pytest.UsageError, one line, for a name that is not installed and facts of nothing here.
    """
    folder = config.invocation_params.dir
    subjects = [Subject(path=path) for path in files]
    try:
        static = config.option.binary_static
        subjects += _find_installed(folder, tuple(names), python, sandbox, static=static)
        for name in dict.fromkeys(config.option.binary_facts):
            from binary_checks.documents.facts_reader import restore

            subjects = _spread(restore(folder / name), subjects)
    except (ProfileError, PackageError) as error:
        raise misused(str(error)) from None
    except BinaryChecksError as error:
        raise misused(f"--binary-python: {error}") from None
    return {subject.path: subject for subject in subjects}


def _find_installed(
    folder: Path,
    names: tuple[str, ...],
    python: Path,
    sandbox: Sandbox | None,
    *,
    static: bool,
) -> Iterable[Subject]:
    """Find each by reading alone; where that is not enough, unless static, as an import would."""
    if not names:
        return
    from binary_checks import places
    from binary_checks.packages.installed import find_installation

    read = places.list_folders(python, timeout=_PATIENCE, site=False)
    for name in names:
        found = find_installation(name, read.search, read.prefix)
        if found is None and read.unread and not static:
            run = places.list_folders(python, timeout=_PATIENCE, sandbox=sandbox)
            found = find_installation(name, run.search, run.prefix)
        if found is None:
            lost = _say_what_is_lost(read.unread) if static else ""
            raise ProfileError(f"--binary-installed {name}: not installed for {python}{lost}")
        yield Subject(path=folder / f"{INSTALLED}{name}", installation=found)


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
