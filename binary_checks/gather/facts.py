"""Looks facts up by their types: each is gathered when it is asked for, once, by its gatherer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

from binary_checks import objects
from binary_checks.declaring import Gatherer, find_gatherers
from binary_checks.errors import (
    BinaryChecksError,
    CheckError,
    NotApplicable,
    NothingNamed,
    Unavailable,
)
from binary_checks.gather import gatherers
from binary_checks.gather.companions import Shelf
from binary_checks.gather.run_environment import RunEnvironment
from binary_checks.gather.settings import ReaderSettings, Settings
from binary_checks.knowledge.loading import explain_unjudged
from binary_checks.model import InstallReport, Linkage, Package, ProbeReport
from binary_checks.model.places import Place
from binary_checks.model.protocols import ObjectReader, Progress, Source, Want
from binary_checks.model.published import PublishedFile
from binary_checks.model.requests import Request
from binary_checks.profile.reading import Profile

_Fact = TypeVar("_Fact")
_Gatherers = Mapping[type, Gatherer[..., Any]]


class Facts:
    """The facts of one package, each gathered at the first call and remembered, failure too."""

    def __init__(
        self, source: Source, settings: Settings, shelf: Shelf, progress: Progress | None = None
    ) -> None:
        self.path = source.path
        self.label = source.label
        self.source, self.settings = source, settings
        self.shelf, self.progress = shelf, progress
        reader = objects.Raised(settings.profile.limit_factor, samples=True)
        self.environment = RunEnvironment(self)
        self._given: Mapping[type, Any] = {
            Settings: settings,
            Profile: settings.profile,
            Source: source,
            Shelf: shelf,
            RunEnvironment: self.environment,
            ReaderSettings: ReaderSettings(
                reader=reader, progress=progress, wants=tuple(_list_wants(settings.gatherers))
            ),
            ObjectReader: reader,
        }
        self._remembered: dict[type, Any] = {}
        self._underway: list[type] = []
        self.elsewhere: list[Facts] = []  # of the same package in several places
        self.place = ""  # the label of one of several places, where it is of one alone

    def get(self, kind: type[_Fact]) -> _Fact:
        """The fact of that class.

        Raises NotApplicable when the package has no such fact, Unavailable when it cannot be
        known here, PackageError when the package cannot be read, GatherError when gathering broke.
        """
        if issubclass(kind, Request):
            return cast("_Fact", self.settings.profile.requests.get(kind) or kind())
        if kind in self._given:
            return cast("_Fact", self._given[kind])
        gatherer = find_gatherer(kind, self.settings.gatherers)
        if gatherer is None:
            raise CheckError(f"nothing gathers {kind.__name__}")
        fact = self._remember(gatherer)
        if kind is not gatherer.fact and not isinstance(fact, kind):
            raise NotApplicable(f"it is {_spell(type(fact))}, not {_spell(kind)}")
        return cast("_Fact", fact)

    def _remember(self, gatherer: Gatherer[..., Any]) -> Any:
        key = gatherer.fact
        if key not in self._remembered:
            try:
                self._remembered[key] = self._gather(gatherer)
            except BinaryChecksError as error:
                self._remembered[key] = error
        fact = self._remembered[key]
        if isinstance(fact, BinaryChecksError):
            raise fact.with_traceback(None)
        return fact

    def _gather(self, gatherer: Gatherer[..., Any]) -> Any:
        if gatherer.fact in self._underway:
            raise CheckError(f"{gatherer!r} needs what it gathers itself")
        self._underway.append(gatherer.fact)
        try:
            needed = [first_of(kinds, self) for kinds in gatherer.facts]
        finally:
            self._underway.pop()
        if gatherer.is_ours:
            return gatherer(*needed)
        try:
            fact = gatherer(*needed)
        except BinaryChecksError:
            raise
        except (Exception, SystemExit) as error:
            raise CheckError(f"{gatherer!r} broke: {type(error).__name__}: {error}") from error
        if not isinstance(fact, gatherer.fact):
            raise CheckError(f"{gatherer!r} gives {fact!r:.80}")
        return fact

    def has_gathered(self, kind: type) -> bool:
        """Whether somebody asked for that fact, and there is one."""
        return isinstance(self._remembered.get(kind), kind)

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Of an installed copy, the names that its wheel may have had."""
        package = self._remembered.get(Package)
        return package.wheel_names if isinstance(package, Package) else ()

    @property
    def published(self) -> dict[str, str | int]:
        """Name, version and size of a published file that was looked at, by their names."""
        file = self._remembered.get(PublishedFile)
        if not isinstance(file, PublishedFile):
            return {}
        package = file.package
        return {"name": package.name, "version": package.version, "size": package.size}

    def object_counts(self) -> tuple[int | None, int]:
        """How many object files were found (None: not read yet), and how many are expected.

        A profile's ``objects`` says how many; a wheel for a platform may well be pure.
        """
        package = self._remembered.get(Package)
        if not isinstance(package, Package):
            return None, 0
        expected = self.settings.profile.objects or 0
        return len(package.objects) + len(package.malformed) + len(package.unread), expected

    @property
    def unjudged(self) -> str:
        """Why none of the package's native code could be judged; "" where some of it was, or ran.

        It is known once a check has asked how that code is loaded.
        """
        package = self._remembered.get(Package)
        if not isinstance(package, Package) or any(each.ran_on for each in (self, *self.elsewhere)):
            return ""
        return explain_unjudged(package, self._remembered.get(Linkage))

    @property
    def unrun(self) -> str:
        """Why the package was not run as asked: with what the user named it cannot be."""
        every = (fact for each in (self, *self.elsewhere) for fact in each._remembered.values())
        return next((str(fact) for fact in every if isinstance(fact, NothingNamed)), "")

    @property
    def system(self) -> str:
        """What one of several places calls its system; "" where it was not asked."""
        return ""

    @property
    def root(self) -> str:
        """The image that the package was put in, with its digest; "" of this host's system."""
        place = self._remembered.get(Place)
        if place is None or isinstance(place, BinaryChecksError):
            return ""
        try:
            image = place.system
        except BinaryChecksError:
            return ""
        return image.pinned if image else ""

    @property
    def ran_on(self) -> str:
        """The interpreter that the package was installed for and ran on; "" while it has not."""
        reports = (each for each in self._remembered.values() if isinstance(each, ProbeReport))
        ran = (each for each in reports if not (isinstance(each, InstallReport) and each.error))
        return next((each.python for each in ran if each.python), "")

    @property
    def install_seconds(self) -> float:
        """What the installation took, for which the first check that needed it has waited."""
        place = self._remembered.get(Place)
        if place is None or isinstance(place, BinaryChecksError):
            return 0.0
        return float(place.install_seconds)

    def close(self) -> None:
        """Remove the place, if one was made, and forget everything."""
        for other in self.elsewhere:
            other.close()
        for fact in self._remembered.values():
            if isinstance(fact, AbstractContextManager):
                fact.__exit__(None, None, None)
        self._remembered.clear()


def _list_wants(own: _Gatherers) -> Iterator[Want]:
    """All that facts want of the members of a package, each once."""
    every = {**find_gatherers([gatherers]), **own}
    yield from dict.fromkeys(want for each in every.values() for want in each.wants)


def _spell(kind: type) -> str:
    """A kind of package in words, any other fact by its class."""
    return kind.noun if issubclass(kind, Package) else kind.__name__


def find_gatherer(kind: type, own: _Gatherers) -> Gatherer[..., Any] | None:
    """Find what gathers the class, or the nearest of those that it is a kind of."""
    for known in _list_gatherers(kind, own):
        for base in kind.__mro__:
            if base in known:
                return known[base]
    return None


def _list_gatherers(kind: type, own: _Gatherers) -> Iterator[_Gatherers]:
    yield own
    yield find_gatherers([gatherers])
    if issubclass(kind, ProbeReport):  # modules that run packages are not loaded to read them
        from binary_checks import probes

        yield find_gatherers(probes.load_readers())


def first_of(kinds: tuple[type, ...], facts: Facts) -> Any:
    """The first of the classes that there is a fact of here; raises as `Facts.get` does.

    ``Linkage | Package`` is the package where its loader is not simulated, or loads nothing of it.
    """
    for kind in kinds[:-1]:
        try:
            return facts.get(kind)
        except (NotApplicable, Unavailable):
            continue
    return facts.get(kinds[-1])
