"""One run: the packages that the user named, what is expected of them, and their companions."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binary_checks import sources
from binary_checks.declaring import Check
from binary_checks.errors import ProfileError
from binary_checks.examination.declarations import (
    Gatherers,
    find_declared,
    load_own_kinds,
    load_own_modules,
)
from binary_checks.examination.examination import Examination, ReadingAhead
from binary_checks.examination.facts import Facts
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.knowledge.configurations import read_given
from binary_checks.model import (
    PackageKind,
    PlaceName,
    Progress,
    Source,
    StatedConfiguration,
    read_place,
)
from binary_checks.packages import OwnKind
from binary_checks.profile import Profile, load_profile, validate
from binary_checks.safe_text import one_line
from binary_checks.sources.file import FileSource
from binary_checks.sources.release import RELEASE, make_release

if TYPE_CHECKING:
    from binary_checks.places import PlaceSettings

Asked = Mapping[Path, frozenset[str]]
"""The checks that the user named for each package, by the path of its source; empty for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The packages of one run and their shared data; call `close` after use."""

    settings: RunSettings
    companions: Companions
    examinations: tuple[Examination, ...]

    @classmethod
    def open(  # noqa: PLR0913 - the packages, and what the user asked of each
        cls,
        packages: Sequence[Source],
        settings: RunSettings,
        companions: Companions,
        *,
        asked: Asked | None = None,
        release: Collection[str] | None = None,
        folder: Path | None = None,
        watch: Callable[[str], Progress | None] = lambda _: None,
        reads_ahead: bool = True,
    ) -> Run:
        """Examine packages, and all of them together if they can be compared.

        ``release`` has the checks requested for all packages together, None for none. ``folder`` is
        the base of relative paths, ``watch`` is called with the progress of reading.
        ``reads_ahead`` allows reading a few packages when their checks are collected. Raises
        ProfileError if the release was requested and there is nothing to compare.
        """
        asked, folder = asked or {}, folder or Path.cwd()
        ahead = ReadingAhead() if reads_ahead else ReadingAhead(0)

        def examine_source(source: Source, spelled: str, checks: frozenset[str]) -> Examination:
            facts = Facts(source, settings, companions, watch(source.label))
            return Examination(facts, spelled=spelled, asked=checks, ahead=ahead)

        names = node_ids([each.path for each in packages], folder)
        found = [
            examine_source(each, names[each.path], asked.get(each.path, frozenset()))
            for each in packages
        ]
        if release is not None or not any(asked.values()):
            taken = {each.node for each in found}
            label = next(name for name in (RELEASE, f"all:{RELEASE}") if name not in taken)
            together = make_release(packages, settings.expected, folder, label)
            if together is not None:
                found.append(examine_source(together, label, frozenset(release or ())))
            elif release is not None:
                lack = "these packages cannot be compared"
                to_do = "name two wheels of one version, or use --binary-expect-set"
                raise ProfileError(f"{RELEASE}: {lack}: {to_do}")
        return cls(settings=settings, companions=companions, examinations=tuple(found))

    def close(self) -> None:
        """Remove the environments and downloads of this run."""
        for examination in self.examinations:
            examination.facts.close()
        self.companions.close()


def node_ids(paths: Sequence[Path], folder: Path) -> dict[Path, str]:
    """Return a unique node id for each package.

    The id is relative to the folder if the package is below it, else the file name, extended by
    parents until it is unique. Ids that look equal when escaped for display get a ``'`` at the end.
    """
    names = Counter(path.name for path in paths)
    rivals = [path for path in paths if names[path.name] > 1]
    found: dict[Path, str] = {}
    shown: set[str] = set()
    for path in paths:
        if path.is_relative_to(folder):
            node = path.relative_to(folder).as_posix()
        else:
            node = _short_name(path, rivals) if names[path.name] > 1 else path.name
        while one_line(node) in shown:
            node += "'"
        shown.add(one_line(node))
        found[path] = node
    return found


def label_rivals(examinations: Sequence[Examination]) -> dict[str, str]:
    """Return a name, by node, for each package whose file name another package has, too.

    The name is the file name with as many folders as tell the packages apart.
    """
    names = Counter(each.file_name for each in examinations)
    rivals = {e.node: Path(e.node) for e in examinations if names[e.file_name] > 1}
    return {node: _short_name(path, rivals.values()) for node, path in rivals.items()}


def _short_name(path: Path, paths: Iterable[Path]) -> str:
    rivals = [other.parts for other in paths if other != path]
    for length in range(1, len(path.parts)):
        tail = path.parts[-length:]
        if not any(rival[-length:] == tail for rival in rivals):
            return "/".join(tail)
    return path.as_posix()


@contextmanager
def examine(  # noqa: PLR0913 - each is an option of the command, too
    package: str | os.PathLike[str] | Source,
    *,
    profile: str | os.PathLike[str] | Profile | None = None,
    companions: Iterable[str | os.PathLike[str]] = (),
    checks: Iterable[Check[Any]] = (),
    kinds: Iterable[PackageKind] = (),
    run: bool = False,
    python: str | os.PathLike[str] | None = None,
    place: str | PlaceName = "venv",
    downloads: bool = False,
    downloads_folder: str | os.PathLike[str] | None = None,
    channels: Iterable[str] = (),
    configuration: Iterable[str] = (),
    target: str = "",
) -> Iterator[Examination]:
    """Open a package to ask for its facts and to judge it; facts are removed at the end.

    profile: the name of a shipped profile or the path of a TOML file; a `Profile` is taken as it
    is, and its own files of checks and kinds are not run. Without it nothing is expected; the
    current folder is not searched. companions: required packages, or folders of packages;
    ``downloads`` fetches required packages that were not given. channels: conda channels by name,
    URL or folder, which provide what a conda package requires. checks and kinds (of packages): your
    own, in addition to ours and the profile's.
    run: install and run the package, with your rights if there is no sandbox. Without it no code of
    the package runs. python: interpreter for which the package is installed, or that has
    ``installed:NAME``; by default this one. place: where it runs, as with ``--place``: ``venv``, a
    fresh environment of python; ``existing:PYTHON`` or ``prefix:PATH``, an environment that has it;
    ``image:REFERENCE``. configuration: statements about the package, such as ``python=3.11`` or
    ``cuda=12.6``; variables of CI systems are never read here. target: another Python and system
    for which ``numpy==2.4.6`` is chosen, ``cp312-win_amd64``.

    Raises ProfileError for a profile that cannot be followed and for a missing package. A package
    that cannot be read raises when it is judged, or when one of its facts is asked for.
    """
    chosen, every, gatherers, own = _choose(profile, checks)
    folder = None if downloads_folder is None else Path(downloads_folder)
    name = read_place(place) if isinstance(place, str) else place
    alongside = Companions(
        map(Path, companions),
        fetches=downloads or folder is not None,
        folder=folder,
        limit_factor=chosen.limit_factor,
        channels=tuple(read_channels(channels, Path.cwd())),
    )
    interpreter = _choose_python(name, python)
    there = (_make_place(name, python, chosen, alongside),) if run else ()
    settings = RunSettings(
        profile=chosen,
        checks=tuple(each for each in every if run or not each.runs_package),
        gatherers=gatherers,
        places=there,
        stated=StatedConfiguration(claims=tuple(read_given(configuration))),
    )
    surroundings = sources.Surroundings(
        python=interpreter,
        sandbox=there[0].sandbox if there else None,
        static=not run,
        image=there[0] if there and name.kind == "image" else None,
        target=target,
    )
    with closing(surroundings):
        opened = Run.open([_find(package, surroundings, (*kinds, *own))], settings, alongside)
        with closing(opened):
            yield opened.examinations[0]


def read_channels(names: Iterable[str], folder: Path) -> Iterator[str]:
    """Yield channels as the user names them, and folders as URLs. Raises ProfileError."""
    for name in names:
        from binary_checks.places.conda_places import format_channel  # few runs need it

        yield format_channel(name, folder)


def _choose_python(name: PlaceName, python: str | os.PathLike[str] | None) -> Path:
    """Return the interpreter of the place. Raises ProfileError if the user named two."""
    if python is not None and name.is_there:
        raise ProfileError(
            f"{name.label}: this place does not create an environment from {python}; give only one "
            "of the two"
        )
    if not name.is_there:
        return Path(python or sys.executable)
    if name.kind == "existing":
        return Path(name.argument)
    from binary_checks import places  # few runs need it

    return places.find_python(Path(name.argument)) or Path(name.argument, "bin", "python")


def _choose(
    given: str | os.PathLike[str] | Profile | None, checks: Iterable[Check[Any]]
) -> tuple[Profile, tuple[Check[Any], ...], Gatherers, tuple[OwnKind, ...]]:
    """Return the profile, the checks that it selects, its own gatherers and kinds."""
    kinds: tuple[OwnKind, ...] = ()
    if given is None or isinstance(given, Profile):
        profile = given or Profile()
        every, gatherers = find_declared((), checks)
    else:
        profile = load_profile(os.fspath(given))
        kinds = load_own_kinds(profile.kinds)
        every, gatherers = find_declared(load_own_modules(profile.checks, kinds), checks)
        profile = validate(profile, every, gatherers.values())
    return profile, tuple(check for check in every if profile.selects(check)), gatherers, kinds


def _make_place(
    name: PlaceName,
    python: str | os.PathLike[str] | None,
    profile: Profile,
    companions: Companions,
) -> PlaceSettings:
    from binary_checks import places  # processes and installers, which only a run needs

    return places.PlaceSettings(
        name=name,
        python=_choose_python(name, python),
        may_choose=python is None,
        timeout=profile.timeout,
        sandbox=places.choose_sandbox("auto", network=profile.network),
        given=companions.given,
        channels=companions.channels,
        way=profile.find_way(name),
    )


def _find(
    package: str | os.PathLike[str] | Source,
    surroundings: sources.Surroundings,
    kinds: tuple[PackageKind, ...],
) -> Source:
    if not isinstance(package, (str, os.PathLike)):
        return package
    named = sources.parse(os.fspath(package), Path.cwd(), folders=True, kinds=kinds)
    if named is None:
        return FileSource(path=Path(package))  # an error is reported when the file is read
    return named.resolve(surroundings)
