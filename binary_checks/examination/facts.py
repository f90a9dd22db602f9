"""Facts by type: each is gathered at most once, by its gatherer, when it is requested."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache, partial
from importlib import import_module
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from binary_checks import objects, probes
from binary_checks.declaring import Gatherer, find_gatherers, is_ours
from binary_checks.errors import (
    BinaryChecksError,
    CheckError,
    GatherError,
    NotApplicable,
    NothingNamed,
    TooLarge,
    Unavailable,
)
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.knowledge.gaps import explain_unjudged
from binary_checks.knowledge.linked_libraries import find_linked
from binary_checks.model import (
    ContentRequests,
    Installed,
    InstalledPackage,
    InstallReport,
    Linkage,
    LinkedLibraries,
    ObjectReader,
    Package,
    Place,
    ProbeReport,
    Progress,
    PublishedFile,
    Request,
    Source,
    StatedConfiguration,
    UnpackedWheel,
)
from binary_checks.profile import Profile
from binary_checks.sources.release import ExpectedSet
from binary_checks.watchdog import Watchdog

if TYPE_CHECKING:
    from binary_checks.places import PlaceSettings

_Fact = TypeVar("_Fact")
_Answer = TypeVar("_Answer")
_Gatherers = Mapping[type, Gatherer[..., Any]]

_NOT_INSTALLED = "nothing is installed in a static run"
BEFORE_READING = (
    "reading",
    "linkage",
    "companions",
    "stated_toolkits",
    "description_rendering",
    "module_reading",
    "small_files",
    "device_reading",
)
"""The modules of ``gather`` that every run imports. Their functions with ``@gathers`` state which
contents of members the pass over a package must keep.
"""
ON_DEMAND = ("installing", "known_classifiers", "rereading")
"""The modules that are imported when one of their facts is requested; they cannot request contents
beforehand. A static run does not load the modules that run packages.
"""


class Facts:
    """The facts of one package. Each is gathered at the first call; facts and failures are kept.

    In a run with several places, `in_places` has Facts for each place, with the facts that depend
    on it. If such a fact is requested from the package itself, the first place that has it provides
    it. In a static run the fact is Unavailable.
    """

    def __init__(  # noqa: PLR0913 - the last two are for the facts of one place
        self,
        source: Source,
        settings: RunSettings,
        companions: Companions,
        progress: Progress | None = None,
        *,
        of_package: Facts | None = None,
        place: PlaceSettings | None = None,
    ) -> None:
        """Prepare to gather; ``of_package`` has the facts that are the same in every place."""
        self.path, self.label = source.path, source.label
        self.source, self.settings, self.companions = source, settings, companions
        self._everywhere = of_package
        self.watchdog: Watchdog = (
            of_package.watchdog
            if of_package
            else Watchdog(settings.profile.limit_factor, owns_process=settings.owns_process)
        )
        early = {**_import_gatherers(BEFORE_READING), **settings.gatherers}
        wants = (want for each in early.values() for want in each.wants)
        self._given: dict[type, Any] = {
            Profile: settings.profile,
            StatedConfiguration: settings.stated,
            Source: source,
            Companions: companions,
            ExpectedSet: settings.expected,
            ObjectReader: objects.LimitedReader(settings.profile.limit_factor),
            Progress: progress,
            ContentRequests: ContentRequests(dict.fromkeys(wants)),
        }
        self._remembered: dict[type, Any] = {}
        self._underway: list[type] = []
        self._dependent: dict[type, bool] = {}  # whether a fact depends on the place
        self.place = ""  # label of the place, if there are several
        # facts by the label of the place, if there are several
        self.in_places: dict[str, Facts] = {}
        if of_package is not None and place is not None:
            self.place = place.name.label
        elif len(settings.places) == 1:
            (place,) = settings.places
        else:
            for each in settings.places:
                placed = Facts(source, settings, companions, of_package=self, place=each)
                self.in_places[each.name.label] = placed
        if place is not None:
            self._given[type(place)] = place

    def get(self, kind: type[_Fact]) -> _Fact:
        """Return the fact of a class.

        Raises NotApplicable if the package has no such fact, Unavailable if it cannot be determined
        on this host, PackageError if the package cannot be read, GatherError if gathering failed.
        """
        if issubclass(kind, Request):
            return cast("_Fact", self.settings.profile.requests.get(kind) or kind())
        if kind in self._given:
            return cast("_Fact", self._given[kind])
        of_place = kind is Place or issubclass(kind, (Installed, ProbeReport))
        if self.settings.is_static and of_place and kind not in self.settings.gatherers:
            raise Unavailable(_NOT_INSTALLED)  # without loading modules that run packages
        gatherer = find_gatherer(kind, self.settings.gatherers)
        if gatherer is None:
            raise CheckError(f"nothing gathers {kind.__name__}")
        depends = self._depends_on_place(gatherer)
        if self._everywhere is not None and not depends:
            return self._everywhere.get(kind)
        if self.in_places and depends:
            return self._ask_places(kind)
        if gatherer.fact not in self._remembered:
            try:
                self._remembered[gatherer.fact] = self._gather(gatherer, depends=depends)
            except BinaryChecksError as error:
                self._remembered[gatherer.fact] = error
        fact = self._remembered[gatherer.fact]
        if isinstance(fact, BinaryChecksError):
            raise fact.with_traceback(None)
        if kind is not gatherer.fact and not isinstance(fact, kind):
            found, wanted = (
                each.noun if issubclass(each, Package) else each.__name__
                for each in (type(fact), kind)
            )
            raise NotApplicable(f"it is {found}, not {wanted}")
        return cast("_Fact", fact)

    def _gather(self, gatherer: Gatherer[..., Any], *, depends: bool) -> Any:
        if gatherer.fact in self._underway:
            raise CheckError(f"{gatherer!r} depends on the fact that it gathers")
        if depends and not self.settings.places:
            raise Unavailable(_NOT_INSTALLED)
        self._underway.append(gatherer.fact)
        try:
            needed = [first_of(kinds, self) for kinds in gatherer.facts]
        finally:
            self._underway.pop()
        # Installers and probes have limits of their own; watching their processes takes CPU time.
        watched = partial(
            self.watchdog.call, f"gathering {gatherer.fact.__name__}", gatherer.function
        )
        gather = gatherer.function if depends else watched
        if is_ours(gatherer):
            return gather(*needed)
        try:
            fact = gather(*needed)
        except BinaryChecksError:
            raise
        except (Exception, SystemExit) as error:
            raise CheckError(f"{gatherer!r} broke: {type(error).__name__}: {error}") from error
        if not isinstance(fact, gatherer.fact):
            raise CheckError(f"{gatherer!r} gives {fact!r:.80}")
        return fact

    def _depends_on_place(self, gatherer: Gatherer[..., Any]) -> bool:
        """Return whether the fact may depend on the place, directly or through a required fact.

        A fact that requires ``Installed | None`` is the same in every place.
        """
        fact = gatherer.fact
        if fact not in self._dependent:
            # a circular dependency is reported when the fact is gathered
            self._dependent[fact] = False
            kinds = (kind for kinds in gatherer.facts if NoneType not in kinds for kind in kinds)
            self._dependent[fact] = fact is Place or any(map(self._is_dependent, kinds))
        return self._dependent[fact]

    def _is_dependent(self, kind: type) -> bool:
        if issubclass(kind, Request) or kind in self._given:
            return False
        gatherer = find_gatherer(kind, self.settings.gatherers)
        return gatherer is not None and self._depends_on_place(gatherer)

    def _ask_places(self, kind: type[_Fact]) -> _Fact:
        """Return the fact from the first place that has it; if none has, raise the last error."""
        *others, last = self.in_places.values()
        for placed in others:
            try:
                return placed.get(kind)
            except (NotApplicable, Unavailable, GatherError):
                continue
        return last.get(kind)

    @property
    def everywhere(self) -> tuple[Facts, ...]:
        """Return these facts, and the facts of each place if there are several."""
        return (self, *self.in_places.values())

    def has_gathered(self, kind: type) -> bool:
        """Return whether the fact was requested and gathered successfully."""
        return isinstance(self._remembered.get(kind), kind)

    @property
    def knows_linkage(self) -> bool:
        """Return whether a report may request the linkage without causing an installation."""
        return self.settings.is_static or self.has_gathered(Linkage)

    @property
    def linked_libraries(self) -> LinkedLibraries:
        """Return how the package is linked, for a report. Raises the same errors as `get`."""
        if self.knows_linkage:
            return self.get(LinkedLibraries)
        return find_linked(self.get(Package), None)

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Return the names that the wheel of an installed copy may have had."""
        package = self._remembered.get(Package)
        if not isinstance(package, (UnpackedWheel, InstalledPackage)):
            return ()
        stem = package.dist_info.removesuffix(".dist-info")
        return tuple(f"{stem}-{tag}.whl" for tag in package.tags)

    @property
    def published(self) -> dict[str, str | int]:
        """Return a published file's name, version and size, by field name, if it was previewed."""
        file = self._remembered.get(PublishedFile)
        if not isinstance(file, PublishedFile):
            return {}
        package = file.package
        return {"name": package.name, "version": package.version, "size": package.size}

    def object_counts(self) -> tuple[int | None, int]:
        """Return how many object files were found (None: not read yet), and how many are expected.

        A profile's ``objects`` sets the expected number; a wheel for a platform may be pure Python.
        """
        package = self._remembered.get(Package)
        if not isinstance(package, Package):
            return None, 0
        expected = self.settings.profile.objects or 0
        return len(package.objects) + len(package.malformed) + len(package.unread), expected

    @property
    def unjudged(self) -> str:
        """Return why none of the package's native code could be judged, or "" if some was.

        Code that ran counts as judged. The answer is known once a check has requested how the code
        is loaded.
        """
        package = self._remembered.get(Package)
        if not isinstance(package, Package) or any(each.ran_on for each in self.everywhere):
            return ""
        return explain_unjudged(package, self._remembered.get(Linkage))

    @property
    def unrun(self) -> str:
        """Return why the package could not run although the user requested it; else ""."""
        every = (fact for each in self.everywhere for fact in each._remembered.values())
        return next((str(fact) for fact in every if isinstance(fact, NothingNamed)), "")

    @property
    def system(self) -> str:
        """Return the name of this place's system, if there are several places; "" if unknown."""
        return self._ask_place(_name_system, "") if self.place else ""

    @property
    def root(self) -> str:
        """Return the image in which the package runs, with its digest, or "" for this host."""
        return self._ask_place(lambda place: place.system.pinned if place.system else "", "")

    @property
    def ran_on(self) -> str:
        """Return the interpreter that ran code of the package, or "" if none did.

        An installation alone runs nothing: a wheel may have nothing but its metadata.
        """
        reports = (each for each in self._remembered.values() if isinstance(each, ProbeReport))
        ran = (each for each in reports if not isinstance(each, InstallReport))
        return next((each.python for each in ran if each.python), "")

    @property
    def operating_system(self) -> str:
        """Return the name of the system on which the package ran, or "" if unknown."""
        found = self._ask_place(lambda place: str(place.target.operating_system), "")
        return found if self.ran_on else ""

    @property
    def install_seconds(self) -> float:
        """Return the seconds that the installation took; the first check that needs it waits."""
        return self._ask_place(lambda place: float(place.install_seconds), 0.0)

    def _ask_place(self, ask: Callable[[Any], _Answer], unknown: _Answer) -> _Answer:
        """Return the place's answer, or ``unknown`` if there is no place or it has no answer."""
        place = self._remembered.get(Place)
        if place is None or isinstance(place, BinaryChecksError):
            return unknown
        try:
            return ask(place)
        except BinaryChecksError:
            return unknown

    def keep_places(self) -> None:
        """Leave the environments in which the package ran where they are."""
        for each in self.everywhere:
            each._ask_place(lambda place: place.keep(), None)

    def close(self) -> None:
        """Remove the place, if one was made, and forget all facts."""
        for placed in self.in_places.values():
            placed.close()
        for fact in self._remembered.values():
            if isinstance(fact, AbstractContextManager):
                fact.__exit__(None, None, None)
        self._remembered.clear()


def _name_system(place: Any) -> str:
    name = place.system.title if place.system else place.target.system
    return name or f"this host, {place.target.libc}"


def find_gatherer(kind: type, own: _Gatherers) -> Gatherer[..., Any] | None:
    """Return the gatherer of the class, or of its nearest base class; None if there is none."""
    for known in _list_gatherers(own):
        for base in kind.__mro__:
            if base in known:
                return known[base]
    return None


def _list_gatherers(own: _Gatherers) -> Iterator[_Gatherers]:
    """Yield a project's own gatherers, then ours; import modules only as they are needed."""
    yield own
    yield _import_gatherers(BEFORE_READING)
    yield _import_gatherers(ON_DEMAND)
    yield find_gatherers(probes.load_readers())


@cache
def _import_gatherers(names: tuple[str, ...]) -> _Gatherers:
    return find_gatherers(import_module(f"binary_checks.gather.{name}") for name in names)


def first_of(kinds: tuple[type, ...], facts: Facts) -> Any:
    """Return the first of these facts that exists; raise the errors of `Facts.get`.

    ``Linkage | Package`` is the package if its loader is not simulated or loads none of its
    objects; ``Installed | None`` is None if nothing is installed or installing failed.
    """
    for kind in kinds[:-1]:
        try:
            return facts.get(kind)
        except TooLarge:  # what a bound left out must not pass because of another fact
            raise
        except (NotApplicable, Unavailable):
            continue
        except GatherError:  # checks that require it report the failure
            if kinds[-1] is not NoneType:
                raise
    return None if kinds[-1] is NoneType else facts.get(kinds[-1])
