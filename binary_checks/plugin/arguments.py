"""The packages that the user named, the places where they run, and the sandbox."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binary_checks import packages, processes, sources
from binary_checks.errors import (
    TRY_AGAIN,
    BinaryChecksError,
    GatherError,
    PackageError,
    ProfileError,
    Unavailable,
)
from binary_checks.examination.declarations import load_own_kinds
from binary_checks.model import PlaceName, Source, read_place, read_relative
from binary_checks.packages import OwnKind
from binary_checks.packages.installed import LABEL
from binary_checks.plugin.failures import usage_error
from binary_checks.plugin.options import COMMAND_INI, find_program
from binary_checks.plugin.progress import progress_line
from binary_checks.profile import Profile, find_profile, load_profile
from binary_checks.safe_text import cut, one_line
from binary_checks.sources.file import (
    apply_statement,
    describe,
    explain,
    suggest_requirement,
)
from binary_checks.sources.release import RELEASE
from binary_checks.sources.remote import UnresolvedSource
from binary_checks.sources.requirement import LABEL as INDEX

if TYPE_CHECKING:
    from binary_checks.documents.facts import Statement
    from binary_checks.places import PlaceSettings, Sandbox


# The packages that the user named: files, installed and published packages, and facts about them.

Asked = dict[Path, frozenset[str]]
"""The checks requested for each package; empty for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """The packages that the user named, and the arguments that are left for pytest to collect."""

    folder: Path  # base of relative paths
    # each package once, in the order in which they are judged
    sources: tuple[sources.NamedSource, ...]
    packages: Asked  # requested checks by the path of the source
    others: tuple[str, ...]
    # checks requested for all packages together; None if the release was not named
    release: Collection[str] | None = None
    installed: tuple[str, ...] = ()  # installed packages, as the user named them
    published: frozenset[Path] = frozenset()  # paths of packages that must be downloaded
    misnamed: tuple[str, ...] = ()  # a line for each argument of the command that is not a package


_KINDS = pytest.StashKey[tuple[OwnKind, ...]]()


def hold_own_kinds(config: pytest.Config, profile: Profile) -> tuple[OwnKind, ...]:
    """Return the profile's own kinds of packages, loaded once. Raises ProfileError."""
    if _KINDS not in config.stash:
        config.stash[_KINDS] = load_own_kinds(profile.kinds)
    return config.stash[_KINDS]


def _find_own_kinds(config: pytest.Config) -> tuple[OwnKind, ...]:
    """Return the project's own kinds, if an argument may be a package and their code may run.

    Raises ProfileError if they cannot be loaded.
    """
    folder, name = config.invocation_params.dir, config.option.binary_profile
    if name is None and config.getini(COMMAND_INI):
        return ()
    if not any(_may_be_package(folder, argument) for argument in config.args):
        return ()
    try:
        profile = find_profile(folder) if name is None else load_profile(name)
    except ProfileError:
        if name is not None:
            raise
        return ()  # reported when a package is judged: other tests need no profile
    return hold_own_kinds(config, profile)


def _may_be_package(folder: Path, argument: str) -> bool:
    """Return whether an argument is neither a file of tests nor a folder with some."""
    name = sources.cut_check(argument)[0]
    return not (name.endswith(".py") or os.path.isdir(folder / name))  # noqa: PTH112 - never raises


def read_arguments(config: pytest.Config) -> Named:
    """Separate packages from other arguments, which pytest collects and our command refuses.

    If only installed packages are named, pytest has nothing else to collect. Raises ProfileError if
    the project's own kinds of packages cannot be used.
    """
    folder, kinds = config.invocation_params.dir, _find_own_kinds(config)
    options = (f"{LABEL}{name}" for name in config.option.binary_installed)
    installed = list(
        dict.fromkeys((*options, *(each for each in config.args if each.startswith(LABEL))))
    )
    remote = _list_published(config, folder)
    apart, published = [*installed, *remote], set[Path]()
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    alone = named and config.getini(COMMAND_INI)
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
        for name in sources.expand(pattern, folder, kinds):
            source = sources.parse(name, folder, folders=alone, kinds=kinds)
            _require_usable_name(folder, f"{name}{colons}{check}", source)
            if source is None:
                others.append(f"{name}{colons}{check}")
            else:
                found[source.path] = source
                published |= {source.path} if argument in remote else set()
                # A request for the whole package takes precedence over those for checks.
                known = asked.get(source.path, frozenset([check]))
                asked[source.path] = known | {check} if check and known else frozenset()
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
    except OSError as error:  # the name is too long
        return f"{name}: {error.strerror}"
    except ValueError:  # the name contains NUL
        return f"{name}: not a path"


def _list_published(config: pytest.Config, folder: Path) -> list[str]:
    """Return the packages to download; a value of the option never means a local file."""
    names = [
        name if sources.is_published(name, folder) else f"{INDEX}{name}"
        for name in config.option.binary_published
    ]
    given = [
        each for each in config.args if sources.is_published(sources.cut_check(each)[0], folder)
    ]
    return list(dict.fromkeys((*names, *given)))


def _require_usable_name(folder: Path, argument: str, source: sources.NamedSource | None) -> None:
    """Refuse a package whose file name pytest would misread or cannot pass to workers."""
    name = sources.cut_check(argument)[0]
    if "::" in argument and packages.recognises(Path(argument)) and (folder / argument).exists():
        raise usage_error(f"{argument}: pytest takes '::' in a file's name for a test: rename it")
    labelled = argument.startswith(LABEL) or sources.is_published(name, folder)
    if source is not None and not labelled:
        if "[" in name:
            raise usage_error(
                f"{name}: pytest takes '[' in a file's name for a parameter: rename it"
            )
        if "\0" in name or name.encode(errors="ignore").decode() != name:
            raise usage_error(f"{name}: the file's name is not valid UTF-8: rename it")


def find_sources(
    config: pytest.Config, named: Named, placing: Placing, sandbox: Sandbox | None
) -> tuple[list[Source], list[str]]:
    """Return every package with the facts given for it, and a line for each missing package.

    Raises pytest.UsageError if all are missing, PackageError or ProfileError if facts cannot be
    read or describe none of the packages.
    """
    surroundings = _make_surroundings(config, named, placing, sandbox)
    missing = list(named.misnamed)
    found: list[Source] = []
    for each in named.sources:
        try:
            found.append(each.resolve(surroundings))
        except (ProfileError, PackageError) as error:
            missing.append(str(error))
        except OSError as error:  # the name is too long
            missing.append(f"{each.path.name}: {error.strerror}")
        except BinaryChecksError as error:
            if surroundings.image is not None and isinstance(error, GatherError):
                pytest.exit(cut(one_line(f"{_OPTION} {error}")), returncode=TRY_AGAIN)
            if each.path not in named.published:
                raise usage_error(f"{placing.option}: {error}") from None
            found.append(UnresolvedSource(path=each.path, reason=str(error)))
    if missing and not found:
        raise usage_error(*missing)
    for name in dict.fromkeys(config.option.binary_facts):
        from binary_checks.documents.facts import restore

        found = _attach_facts(restore(named.folder / name, named=name), found)
    return found, missing


INDEX_FINDINGS = "binary_checks_index_findings"
"""The key under which an xdist worker receives the controller's findings on indexes."""
_PATIENCE = 120.0  # seconds for an image's interpreter to start
SURROUNDINGS = pytest.StashKey[sources.Surroundings]()


def _make_surroundings(
    config: pytest.Config, named: Named, placing: Placing, sandbox: Sandbox | None
) -> sources.Surroundings:
    """Return the surroundings for resolving sources; workers use the controller's findings."""
    target = config.option.binary_for or ""
    if target and not named.published:
        raise usage_error(f"--binary-for {target}: no package of an index is named")
    given = getattr(config, "workerinput", {}).get(INDEX_FINDINGS)
    config.stash[SURROUNDINGS] = surroundings = sources.Surroundings(
        python=placing.python,
        sandbox=sandbox,
        static=config.option.binary_static,
        image=_find_image(placing, sandbox) if named.installed else None,
        target=target,
        progress=lambda name: progress_line(config, name, "downloading"),
        shared_results={} if given is None else json.loads(given),
    )
    config.add_cleanup(surroundings.close)  # also if the run ends before it is configured
    return surroundings


def _find_image(placing: Placing, sandbox: Sandbox | None) -> PlaceSettings | None:
    """Return the image that contains the named packages, or None if they are on this host."""
    for name, python in placing.interpreters.items():
        if name.kind == "image" and sandbox is not None:
            from binary_checks.places import PlaceSettings

            return PlaceSettings(name=name, python=python, timeout=_PATIENCE, sandbox=sandbox)
    return None


def _attach_facts(statement: Statement, found: list[Source]) -> list[Source]:
    """Attach the facts to the package that they describe."""
    trusting = [apply_statement(source, statement) for source in found]
    if not any(trusting):
        known = ", ".join(f"{each.label} ({each.identity()})" for each in found)
        about = f"{statement.package.path.name} ({', '.join(describe(statement))})"
        raise ProfileError(f"--binary-facts: {about}: not about {known or 'any package named'}")
    return [new or old for new, old in zip(trusting, found, strict=True)]


# The places where packages run: ``--binary-place``, and the older options for the same purpose.

_OPTION = "--binary-place"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placing:
    """The places of a run, with the interpreter of each."""

    # the interpreter in each place, or the one from which the place is made
    interpreters: Mapping[PlaceName, Path]

    @property
    def names(self) -> tuple[PlaceName, ...]:
        """Return the places in the order in which they were named."""
        return tuple(self.interpreters)

    @property
    def python(self) -> Path:
        """Return the interpreter for which installed packages are looked up.

        An existing place has its own interpreter.
        """
        there = [path for name, path in self.interpreters.items() if name.is_there]
        return (*there, *self.interpreters.values())[0]

    @property
    def option(self) -> str:
        """Return the option that names this interpreter."""
        there = [name for name in self.names if name.is_there]
        return f"{_OPTION} {there[0].label}" if there else "--binary-python"


def read_placing(config: pytest.Config, *, installed: bool) -> Placing:
    """Read where packages run; ``installed`` states whether an installed package is named.

    Raises pytest.UsageError with one line if options contradict each other or name a missing place.
    """
    folder, given = config.invocation_params.dir, config.option.binary_python
    try:
        names = tuple(dict.fromkeys(map(read_place, config.option.binary_place)))
    except ProfileError as error:
        raise usage_error(f"{_OPTION} {error}") from None
    _require_one_meaning(config, names, installed=installed)
    python = require_program(folder, given or sys.executable, f"--binary-python {given}")
    placing = Placing(
        interpreters={
            name: find_interpreter(folder, name) if name.is_there else python
            for name in names or (PlaceName(),)
        }
    )
    for name in names:
        if name.kind == "pyodide" and not (folder / name.argument).is_dir():
            raise usage_error(f"{_OPTION} {name.label}: no such folder")
    if installed and not placing.python.exists():
        raise usage_error(f"{placing.option}: it contains no Python")
    return placing


def _require_one_meaning(
    config: pytest.Config, names: tuple[PlaceName, ...], *, installed: bool
) -> None:
    python, static = config.option.binary_python, config.option.binary_static
    there = [name.label for name in names if name.is_there]
    kinds = {name.kind for name in names}
    if python is not None and names and kinds.isdisjoint({"venv", "image"}):
        raise usage_error(
            f"--binary-python {python}: {_OPTION} {names[0].label} has its own interpreter; "
            "give only one of these options"
        )
    if len(there) > 1:
        raise usage_error(
            f"{_OPTION} {there[1]}: {there[0]} is given already, "
            "and only one existing environment can be given"
        )
    if installed and "venv" in kinds:
        raise usage_error(
            f"{_OPTION} venv: an installed package runs where it is installed: "
            "give existing:PYTHON or prefix:PATH"
        )
    images = [name for name in names if name.kind == "image"]
    if installed and images and (len(names) > 1 or read_relative(images[0].argument) is not None):
        label = names[1].label if len(names) > 1 else images[0].label
        raise usage_error(
            f"{_OPTION} {label}: an installed package is in one place: "
            "name its image, and no other place"
        )
    if static and not kinds.isdisjoint({"image", "pyodide"}):
        label = next(name.label for name in names if name.kind in {"image", "pyodide"})
        raise usage_error(f"{_OPTION} {label}: --binary-static runs nothing")


def find_interpreter(folder: Path, name: PlaceName) -> Path:
    """Return the interpreter of an existing environment, or a missing path if there is none."""
    path = Path(os.path.normpath(folder / name.argument))
    if name.kind == "existing":
        return require_program(folder, name.argument, f"{_OPTION} {name.label}")
    if not path.is_dir():
        raise usage_error(f"{_OPTION} {name.label}: no such folder")
    from binary_checks.places import find_python

    return find_python(path) or path / "bin" / "python"


def require_program(folder: Path, name: str, option: str) -> Path:
    """Return the path of a program; a bare name is looked up on PATH, as a shell does."""
    path = Path(os.path.normpath(folder / name))
    if not path.exists() and Path(name).name == name and (found := shutil.which(name)):
        return Path(found)
    if not path.exists():
        raise usage_error(f"no such file or folder: {name}")
    if path.is_dir() or not os.access(path, os.X_OK):
        raise usage_error(f"{option}: not an executable program")
    return path


# The sandbox of a run, and the variables that packages must not see.

HIDDEN_VARIABLES = "binary_checks_hidden_variables"
"""The key under which an xdist worker receives the variables that are hidden from packages."""


@dataclass(frozen=True, slots=True, eq=False)
class CommandProcess:
    """A plugin without hooks, with the process of the command that runs pytest."""

    started: float  # by the monotonic clock, before any restart
    # restarts it without the variables that packages must not see, if that is possible
    restart: Callable[[], None]


def find_command_process(config: pytest.Config) -> CommandProcess | None:
    """Return the process of the command, or None if other programs run pytest."""
    plugins = config.pluginmanager.get_plugins()
    return next((each for each in plugins if isinstance(each, CommandProcess)), None)


def choose_sandbox(
    config: pytest.Config, profile: Profile, names: Sequence[PlaceName]
) -> Sandbox | None:
    """Choose the sandbox before any code of a package runs; return None in a static run.

    Containers need no further sandbox. If a sandbox is required and none works, end the run with
    one line.
    """
    if config.option.binary_static:
        return None
    from binary_checks import places

    given = getattr(config, "workerinput", {}).get(HIDDEN_VARIABLES)
    processes.hide(given or {})
    try:
        mode = config.option.binary_sandbox
        if all(name.kind == "image" for name in names):
            return places.Sandbox(limits=places.Limits(network=profile.network), contained=True)
        sandbox = places.choose_sandbox(mode, network=profile.network)
        command = find_command_process(config)
        if not sandbox.holds and command:
            command.restart()
        return sandbox
    except Unavailable as error:
        message = find_program(config).name_options(f"--binary-sandbox require: {error}")
        pytest.exit(cut(one_line(message)), returncode=TRY_AGAIN)  # the package is not the cause
