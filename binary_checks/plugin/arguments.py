"""What the user named to be judged, where it runs, and what it runs in."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binary_checks import packages, processes, sources
from binary_checks.errors import (
    TRY_AGAIN,
    BinaryChecksError,
    PackageError,
    ProfileError,
    Unavailable,
)
from binary_checks.lines import cut, one_line
from binary_checks.model.places import PlaceName, read_place
from binary_checks.model.protocols import Source
from binary_checks.packages.installed import LABEL
from binary_checks.plugin.failures import misused
from binary_checks.plugin.options import DEAF_INI, find_program
from binary_checks.plugin.screen import progress_line
from binary_checks.profile.reading import Profile
from binary_checks.sources.file import explain, suggest_requirement
from binary_checks.sources.release import RELEASE
from binary_checks.sources.remote import LostSource
from binary_checks.sources.requirement import LABEL as INDEX

if TYPE_CHECKING:
    from binary_checks.documents.facts import Statement
    from binary_checks.places import Sandbox


# What the user named to be judged: package files, installed packages, and facts about them.

Asked = dict[Path, frozenset[str]]
"""Which checks were asked for of each package; none is all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """What the user named: packages, and what is left for pytest to collect in its own way."""

    folder: Path  # from which relative paths count
    sources: tuple[sources.NamedSource, ...]  # each once, in the order in which they are judged
    packages: Asked  # by the paths of the sources
    others: tuple[str, ...]
    release: Collection[str] | None = None  # the checks asked for of all packages together
    installed: tuple[str, ...] = ()  # those that lie installed, as they were named
    published: frozenset[Path] = frozenset()  # by their paths: those that are to be fetched
    misnamed: tuple[str, ...] = ()  # a line for each argument of the command that is no package


def read_arguments(config: pytest.Config) -> Named:
    """Tell packages from other arguments, which stay as they are, or are none of the command's.

    Where nothing but an installed package was named there is nothing else to collect.
    """
    folder = config.invocation_params.dir
    installed = list(dict.fromkeys((*_options(config), *filter(_is_installed, config.args))))
    remote = _list_published(config, folder)
    apart, published = [*installed, *remote], set[Path]()
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    alone = named and config.getini(DEAF_INI)
    left = [each for each in config.args if each not in apart] if named else config.args
    found: dict[Path, sources.NamedSource] = {}
    asked: Asked = {}
    others = []
    release: set[str] | None = None
    for argument in (*(left if named or not apart else ()), *apart):
        pattern, colons, check = sources.cut_check(argument)
        if pattern == RELEASE and not (folder / pattern).exists():
            release = {*(release or ()), *filter(None, [check])}
            continue
        for name in sources.expand(pattern, folder):
            source = sources.parse(name, folder, folders=alone)
            _demand_nameable(folder, f"{name}{colons}{check}", source)
            if source is None:
                others.append(f"{name}{colons}{check}")
            else:
                found[source.path] = source
                published |= {source.path} if argument in remote else set()
                _ask(asked, source.path, check)
    return Named(
        folder=folder,
        sources=tuple(found.values()),
        packages=asked,
        release=release,
        others=() if alone else tuple(others),
        installed=tuple(installed),
        published=frozenset(published),
        misnamed=tuple(_explain(folder, each) for each in others) if alone else (),
    )


def _explain(folder: Path, argument: str) -> str:
    name = sources.cut_check(argument)[0]
    try:
        return f"{explain(name, folder / name)}{suggest_requirement(name, folder / name)}"
    except OSError as error:  # too long a name
        return f"{name}: {error.strerror}"
    except ValueError:  # a NUL in it
        return f"{name}: not a path"


def _options(config: pytest.Config) -> Iterable[str]:
    return (f"{LABEL}{name}" for name in config.option.binary_installed)


def _list_published(config: pytest.Config, folder: Path) -> list[str]:
    """Those that are to be fetched; the value of an option is one, whatever lies in the folder."""
    names = [
        name if sources.is_published(name, folder) else f"{INDEX}{name}"
        for name in config.option.binary_published
    ]
    given = [
        each for each in config.args if sources.is_published(sources.cut_check(each)[0], folder)
    ]
    return list(dict.fromkeys((*names, *given)))


def _is_installed(argument: str) -> bool:
    return argument.startswith(LABEL)


def _ask(found: Asked, package: Path, check: str) -> None:
    """Asked for as a whole and by a check too, it is asked for as a whole."""
    known = found.get(package, frozenset([check]))
    found[package] = known | {check} if check and known else frozenset()


def _demand_nameable(folder: Path, argument: str, source: sources.NamedSource | None) -> None:
    """Refuse a package whose file's name pytest takes for something else, or cannot pass on."""
    name = sources.cut_check(argument)[0]
    if "::" in argument and packages.recognises(Path(argument)) and (folder / argument).exists():
        raise misused(f"{argument}: pytest takes '::' in a file's name for a test: rename it")
    labelled = _is_installed(argument) or sources.is_published(name, folder)
    if source is not None and not labelled:
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


def find_sources(
    config: pytest.Config, named: Named, placing: Placing, sandbox: Sandbox | None
) -> tuple[list[Source], list[str]]:
    """Every package named, with the facts that were given of it; a line for each that is not there.

    Raises pytest.UsageError where none is there, and for facts of nothing here.
    """
    surroundings = _survey(config, named, placing, sandbox)
    lost = list(named.misnamed)
    found: list[Source] = []
    for each in named.sources:
        try:
            found.append(each.resolve(surroundings))
        except (ProfileError, PackageError, OSError) as error:
            lost.append(_say(each, error))
        except BinaryChecksError as error:
            if each.path not in named.published:
                raise misused(f"{placing.option}: {error}") from None
            found.append(LostSource(path=each.path, reason=str(error)))
    if lost and not found:
        raise misused(*lost)
    try:
        for name in dict.fromkeys(config.option.binary_facts):
            from binary_checks.documents.facts import restore

            found = _spread(restore(named.folder / name, named=name), found)
    except (ProfileError, PackageError) as error:
        raise misused(str(error)) from None
    return found, lost


AGREED = "binary_checks_agreed"
"""The key under which a worker of xdist's is given what the controller found on indexes."""
SURROUNDINGS = pytest.StashKey[sources.Surroundings]()


def _survey(
    config: pytest.Config, named: Named, placing: Placing, sandbox: Sandbox | None
) -> sources.Surroundings:
    """What sources are found with; workers take over what was found already."""
    target = config.option.binary_for or ""
    if target and not named.published:
        raise misused(f"--binary-for {target}: nothing is named that is published on an index")
    given = getattr(config, "workerinput", {}).get(AGREED)
    config.stash[SURROUNDINGS] = surroundings = sources.Surroundings(
        python=placing.python,
        sandbox=sandbox,
        static=config.option.binary_static,
        target=target,
        progress=lambda name: progress_line(config, name, "downloading"),
        agreed={} if given is None else json.loads(given),
    )
    return surroundings


def hand_over(config: pytest.Config) -> str:
    """What the controller found, for a worker: an index may have something else by then."""
    surroundings = config.stash.get(SURROUNDINGS, None)
    return json.dumps(surroundings.agreed if surroundings else {})


def _say(named: sources.NamedSource, error: Exception) -> str:
    if isinstance(error, OSError):  # too long a name
        return f"{named.path.name}: {error.strerror}"
    return str(error)


def _spread(statement: Statement, found: list[Source]) -> list[Source]:
    """Give the facts to the package that they are about."""
    from binary_checks.sources.stated import describe, trust

    trusting = [trust(source, statement) for source in found]
    if not any(trusting):
        known = ", ".join(f"{each.label} ({each.identity()})" for each in found)
        about = f"{statement.package.path.name} ({', '.join(describe(statement))})"
        raise ProfileError(f"--binary-facts: {about}: not about {known or 'any package named'}")
    return [new or old for new, old in zip(trusting, found, strict=True)]


# Where packages run in one run: ``--binary-place`` held against the older options beside it.

_OPTION = "--binary-place"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placing:
    """The places of a run, and the interpreter that goes with them."""

    interpreters: Mapping[PlaceName, Path]  # of each place: that it has, or that it is made from

    @property
    def names(self) -> tuple[PlaceName, ...]:
        """The places, in the order in which they were named."""
        return tuple(self.interpreters)

    @property
    def python(self) -> Path:
        """The interpreter that installed packages are looked up for: that of what is there."""
        there = [path for name, path in self.interpreters.items() if name.is_there]
        return (*there, *self.interpreters.values())[0]

    @property
    def option(self) -> str:
        """How the user names that interpreter."""
        there = [name for name in self.names if name.is_there]
        return f"{_OPTION} {there[0].label}" if there else "--binary-python"


def read_placing(config: pytest.Config, *, installed: bool) -> Placing:
    """Read where packages are to run; ``installed`` says whether one is named that lies somewhere.

    Raises pytest.UsageError with one line for what contradicts itself or is not there.
    """
    folder, given = config.invocation_params.dir, config.option.binary_python
    try:
        names = tuple(dict.fromkeys(map(read_place, config.option.binary_place)))
    except ProfileError as error:
        raise misused(f"{_OPTION} {error}") from None
    _demand_one_meaning(config, names, installed=installed)
    python = demand_program(folder, given or sys.executable, f"--binary-python {given}")
    placing = Placing(
        interpreters={
            name: find_interpreter(folder, name) if name.is_there else python
            for name in names or (PlaceName(),)
        }
    )
    if installed and not placing.python.exists():
        raise misused(f"{placing.option}: there is no Python in it")
    return placing


def _demand_one_meaning(
    config: pytest.Config, names: tuple[PlaceName, ...], *, installed: bool
) -> None:
    python, static = config.option.binary_python, config.option.binary_static
    there = [name.label for name in names if name.is_there]
    kinds = {name.kind for name in names}
    if python is not None and names and kinds.isdisjoint({"venv", "image"}):
        said = f"{_OPTION} {names[0].label} makes no venv from it; give one of the two"
        raise misused(f"--binary-python {python}: {said}")
    if len(there) > 1:
        raise misused(f"{_OPTION} {there[1]}: {there[0]} is given already; one run has one")
    if installed and "venv" in kinds:
        said = "what is installed runs where it lies: name that by existing:PYTHON or prefix:PATH"
        raise misused(f"{_OPTION} venv: {said}")
    if static and "image" in kinds:
        label = next(name.label for name in names if name.kind == "image")
        raise misused(f"{_OPTION} {label}: with --binary-static nothing runs anywhere")


def find_interpreter(folder: Path, name: PlaceName) -> Path:
    """Find the interpreter of an environment that is there; of a folder without one, where not."""
    path = Path(os.path.normpath(folder / name.argument))
    if name.kind == "existing":
        return demand_program(folder, name.argument, f"{_OPTION} {name.label}")
    if not path.is_dir():
        raise misused(f"{_OPTION} {name.label}: no such folder")
    from binary_checks.places.existing import find_python  # for few runs

    return find_python(path) or path / "bin" / "python"


def demand_program(folder: Path, name: str, option: str) -> Path:
    """The path of a program that may be run: as a shell finds it, a bare name is one of PATH."""
    path = Path(os.path.normpath(folder / name))
    if not path.exists() and Path(name).name == name and (found := shutil.which(name)):
        return Path(found)
    if not path.exists():
        raise misused(f"no such file or folder: {name}")
    if path.is_dir() or not os.access(path, os.X_OK):
        raise misused(f"{option}: no program to run")
    return path


# What packages run in during one run, and what they could find outside of it.

WITHHELD = "binary_checks_withheld"
"""What a worker of xdist's is handed under: the variables that its own environment lacks."""


class StartsAnew:
    """Registered where the whole process is ours: it may become another, with less to be read."""


def _is_ours(config: pytest.Config) -> bool:
    return any(isinstance(each, StartsAnew) for each in config.pluginmanager.get_plugins())


def choose_sandbox(
    config: pytest.Config, profile: Profile, names: Sequence[PlaceName]
) -> Sandbox | None:
    """Choose what packages run in, before anything of one runs; None where nothing does.

    Ends the run with one line where one is required and none holds; none is in containers.
    """
    if config.option.binary_static:
        return None
    from binary_checks import places

    given = getattr(config, "workerinput", {}).get(WITHHELD)
    processes.hide(given or {})
    try:
        mode = config.option.binary_sandbox
        if all(name.kind == "image" for name in names):
            return places.Sandbox(limits=places.Limits(network=profile.network), contained=True)
        sandbox = places.choose_sandbox(mode, network=profile.network)
        if not sandbox.holds and _is_ours(config):
            processes.restart_without_secrets()
        return sandbox
    except Unavailable as error:
        told = find_program(config).name_options(f"--binary-sandbox require: {error}")
        pytest.exit(cut(one_line(told)), returncode=TRY_AGAIN)  # the package has no part in it
