"""One package under examination: its name, its source, the checks asked for, and its facts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from binary_checks import sources
from binary_checks.declaring import (
    Check,
    Gatherer,
    find_checks,
    find_gatherers,
    load_checks,
)
from binary_checks.errors import ProfileError
from binary_checks.gather.companions import Shelf
from binary_checks.gather.facts import Facts, find_gatherer
from binary_checks.gather.settings import Settings
from binary_checks.knowledge.configurations import read_given
from binary_checks.lines import one_line
from binary_checks.model.binary_configuration import StatedConfiguration
from binary_checks.model.places import PlaceName, read_place
from binary_checks.model.protocols import Source
from binary_checks.profile.reading import Profile, load_profile, validate
from binary_checks.soundness import demand_gatherable, demand_sound
from binary_checks.sources.file import FileSource

_Fact = TypeVar("_Fact")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Examination:
    """All that a run knows of one package; its facts are gathered when they are asked for."""

    node: str  # by which reports call it, in characters that may be shown
    spelled: str  # the same in the characters of the file's name
    source: Source
    asked: frozenset[str] = frozenset()  # the checks that the user named; none is all
    checks: tuple[Check[Any], ...]  # that are to judge it, where they apply
    facts: Facts

    @property
    def file_name(self) -> str:
        """The package in the lines that are printed of it."""
        return self.source.label

    def get(self, kind: type[_Fact]) -> _Fact:
        """The fact of that class, ``Linkage`` for example; gathered once.

        Raises NotApplicable when the package has no such fact, Unavailable when it cannot be
        known here, PackageError when the package cannot be read, GatherError when gathering broke.
        """
        return self.facts.get(kind)

    @property
    def unjudged(self) -> str:
        """Why none of its native code could be judged; "" where some was, or there is none."""
        return self.facts.unjudged


@contextmanager
def examine(  # noqa: PLR0913 - each is an option of the command, too
    package: str | os.PathLike[str] | Source,
    *,
    profile: str | os.PathLike[str] | Profile | None = None,
    companions: Iterable[str | os.PathLike[str]] = (),
    checks: Iterable[Check[Any]] = (),
    run: bool = False,
    python: str | os.PathLike[str] | None = None,
    place: str | PlaceName = "venv",
    downloads: bool = False,
    downloads_folder: str | os.PathLike[str] | None = None,
    channels: Iterable[str] = (),
    configuration: Iterable[str] = (),
    target: str = "",
) -> Iterator[Examination]:
    """Open a package to ask for its facts, and to judge it; what was gathered goes at the end.

    profile: the name of a shipped one or the path of a TOML file; a `Profile` is taken as it is,
    and its own files of checks are not run. Without it nothing is expected, and none is looked for
    in the current folder.
    companions: packages that it requires, or folders of such; ``downloads`` fetches the others.
    channels: of conda, by name, URL or folder, for what a conda package requires.
    checks: of your own, beside ours and the profile's.
    run: install and run the package, with your rights where there is no sandbox. Without it no
    code of the package runs.
    python: that the package is installed for, or ``installed:NAME`` is; without it this one.
    place: where it runs, as ``--binary-place`` names it: ``venv``, a fresh environment of python;
    ``existing:PYTHON`` or ``prefix:PATH``, one that it is installed in; ``image:REFERENCE``.
    configuration: what the package is said to be, as ``python=3.11`` or ``cuda=12.6``; variables of
    CI systems are never read here.
    target: another Python and system for which ``numpy==2.4.6`` is chosen, ``cp312-win_amd64``.

    Raises ProfileError for a profile that cannot be followed and for a package that is not there.
    That a package cannot be read shows when it is judged, or when a fact of it is asked for.
    """
    chosen, every, gatherers = _choose(profile, checks)
    folder = None if downloads_folder is None else Path(downloads_folder)
    named = tuple(_read_channels(channels))
    shelf = Shelf(
        map(Path, companions),
        fetches=downloads or folder is not None,
        folder=folder,
        limit_factor=chosen.limit_factor,
        channels=named,
    )
    name = read_place(place) if isinstance(place, str) else place
    settings = Settings(
        profile=chosen,
        python=_choose_python(name, python),
        place=name,
        sandbox=_box(chosen, run=run),
        channels=named,
        gatherers=gatherers,
        stated=StatedConfiguration(claims=tuple(read_given(configuration))),
    )
    source = _find(package, settings, run=run, target=target)
    with closing(shelf), closing(Facts(source, settings, shelf)) as facts:
        facts.environment.expected = run
        yield Examination(
            node=one_line(source.label),
            spelled=source.label,
            source=source,
            checks=tuple(each for each in every if run or not each.runs_package),
            facts=facts,
        )


def _read_channels(names: Iterable[str]) -> Iterator[str]:
    """Channels by name or address; folders by the addresses that they have."""
    for name in names:
        from binary_checks.places.channels import spell_channel  # of few runs

        yield spell_channel(name, Path.cwd())


def _choose_python(name: PlaceName, python: str | os.PathLike[str] | None) -> Path:
    """The interpreter of the place. Raises ProfileError where two are named."""
    if python is not None and name.is_there:
        raise ProfileError(f"{name.label}: this place makes no venv of {python}; give one of both")
    if not name.is_there:
        return Path(python or sys.executable)
    if name.kind == "existing":
        return Path(name.argument)
    from binary_checks import places  # for few runs

    return places.find_python(Path(name.argument)) or Path(name.argument, "bin", "python")


Gatherers = Mapping[type, Gatherer[..., Any]]


def _choose(
    given: str | os.PathLike[str] | Profile | None, checks: Iterable[Check[Any]]
) -> tuple[Profile, tuple[Check[Any], ...], Gatherers]:
    """The profile, the checks that it selects, and what its own gather."""
    if given is None or isinstance(given, Profile):
        profile = given or Profile()
        every, gatherers = find_declared((), checks)
    else:
        profile = load_profile(os.fspath(given))
        every, gatherers = find_declared(map(load_own_checks, profile.checks), checks)
        profile = validate(profile, every, gatherers.values())
    return profile, tuple(check for check in every if profile.selects(check)), gatherers


def find_declared(
    modules: Iterable[ModuleType], checks: Iterable[Check[Any]] = ()
) -> tuple[tuple[Check[Any], ...], Gatherers]:
    """Every check of ours, of these modules and beside, and what gathers facts for them.

    Raises ProfileError for one whose declaration says nothing.
    """
    modules = tuple(modules)
    gatherers = find_gatherers(modules)
    every = tuple(dict.fromkeys((*find_checks(modules), *checks)))

    def is_gathered(kind: type) -> bool:
        return find_gatherer(kind, gatherers) is not None

    for check in every:
        demand_sound(check, is_gathered)
    for gatherer in gatherers.values():
        demand_gatherable(gatherer, is_gathered)
    return every, gatherers


def _find(
    package: str | os.PathLike[str] | Source, settings: Settings, *, run: bool, target: str
) -> Source:
    if not isinstance(package, (str, os.PathLike)):
        return package
    named = sources.parse(os.fspath(package), Path.cwd(), folders=True)
    if named is None:
        return FileSource(path=Path(package))  # which says what is wrong with it when it is read
    return named.resolve(
        sources.Surroundings(
            python=settings.python, sandbox=settings.sandbox, static=not run, target=target
        )
    )


def _box(profile: Profile, *, run: bool) -> Any:
    if not run:
        return None
    from binary_checks import places  # processes and installers, for what runs alone

    return places.choose_sandbox("auto", network=profile.network)


def load_own_checks(path: Path) -> ModuleType:
    """Import a profile's file of checks. Raises ProfileError, one line, whatever it raises."""
    try:
        return load_checks(str(path), f"binary_checks_profile.{path.stem}")
    except (Exception, SystemExit) as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ProfileError(f"checks file {path}: {line}") from None
