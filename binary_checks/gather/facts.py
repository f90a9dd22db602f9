"""Gathers, once and lazily, what a check's signature asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from binary_checks import loaders, objects, systems
from binary_checks.errors import BinaryChecksError, NotApplicable
from binary_checks.gather.companions import Shelf
from binary_checks.model import (
    ANY_SYSTEM,
    CudaReport,
    Distribution,
    ExtensionReport,
    GpuReport,
    ImportReport,
    InstalledPackage,
    InstallReport,
    Linkage,
    Package,
    SecondOpinion,
    TargetSystem,
    Wheel,
)
from binary_checks.model.protocols import Progress, Source
from binary_checks.model.requests import CudaRequest, GpuRequest, Request, SnippetRequest
from binary_checks.model.snippet_report import SnippetReport
from binary_checks.profile.reading import Profile

if TYPE_CHECKING:
    from binary_checks.gather.trial import Trial
    from binary_checks.places import Sandbox

_Fact = TypeVar("_Fact")
_TRIAL = "trial"  # the key of the environment, which no check may ask for


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the user asked for, beside the packages themselves."""

    profile: Profile = field(default_factory=Profile)
    python: Path  # the interpreter that runtime checks run in
    sandbox: Sandbox | None = None  # what keeps them from the rest; None: nothing
    beside: tuple[Path, ...] = ()  # wheels, or folders of wheels, that stand for Requires-Dist
    builds: bool = False  # whether an installer may build sdists, and follow requirements by URL


class Facts:
    """The facts of one package, each gathered at the first call and remembered, failure too."""

    def __init__(
        self, source: Source, settings: Settings, shelf: Shelf, progress: Progress | None = None
    ) -> None:
        self.path = source.path
        self._source = source
        self.settings = settings
        self._shelf = shelf
        self._reader = objects.Raised(settings.profile.limit_factor)
        self._progress = progress
        self._remembered: dict[object, Any] = {}
        self._gatherers: dict[type, Callable[[], Any]] = {
            Package: self._read_package,
            TargetSystem: self._name_target,
            Linkage: self._simulate_loader,
            InstallReport: lambda: self._try_out().install(),
            ImportReport: lambda: self._try_out().import_names(),
            ExtensionReport: lambda: self._try_out().load_extensions(),
            SnippetReport: lambda: self._try_out().run_snippets(self.get(SnippetRequest)),
            CudaReport: self._ask_without_gpu,
            GpuReport: self._use_gpu,
            SecondOpinion: self._ask_others,
        }

    def get(self, kind: type[_Fact]) -> _Fact:
        """The fact of that class.

        Raises NotApplicable when the package has no such fact, Unavailable when it cannot be
        known here, PackageError when the package cannot be read, GatherError when gathering broke.
        """
        if issubclass(kind, Request):
            return cast("_Fact", self.settings.profile.requests.get(kind) or kind())
        key: type = Package if issubclass(kind, Package) else kind
        fact = self._remember(key, self._gatherers[key])
        if not isinstance(fact, kind):
            raise NotApplicable(f"its kind is {type(fact).__name__}, not {kind.__name__}")
        return fact

    def _remember(self, key: object, gather: Callable[[], Any]) -> Any:
        if key not in self._remembered:
            try:
                self._remembered[key] = gather()
            except BinaryChecksError as error:
                self._remembered[key] = error
        fact = self._remembered[key]
        if isinstance(fact, BinaryChecksError):
            raise fact.with_traceback(None)
        return fact

    @property
    def wheel_names(self) -> tuple[str, ...]:
        """Of an installed copy, the names that its wheel may have had."""
        package = self._remembered.get(Package)
        return package.wheel_names if isinstance(package, InstalledPackage) else ()

    def object_counts(self) -> tuple[int | None, int]:
        """How many object files were found (None: not read yet), and how many are expected.

        A profile's ``objects`` says how many; without it a wheel for a platform needs one.
        """
        package = self._remembered.get(Package)
        if not isinstance(package, Package):
            return None, 0
        expected = self.settings.profile.objects
        if expected is None:
            expected = int({each.system for each in package.claims.systems} != {ANY_SYSTEM})
        return len(package.objects) + len(package.malformed) + len(package.unread), expected

    def close(self) -> None:
        """Remove the environment, if one was made, and forget everything."""
        trial = self._remembered.get(_TRIAL)
        if trial is not None and not isinstance(trial, BinaryChecksError):
            trial.close()
        self._remembered.clear()

    def _read_package(self) -> Package:
        return self._source.read(self._reader, self._progress)

    def _name_target(self) -> TargetSystem:
        profile = self.settings.profile
        claims = self.get(Package).claims
        return systems.target_for(claims, profile.system_libraries, profile.dll_directories)

    def _simulate_loader(self) -> Linkage:
        package, target = self.get(Package), self.get(TargetSystem)
        company = self._shelf.accompany(self._source, package, target)
        return loaders.simulate(
            package, target, others=company.packages, requirements=company.requirements
        )

    def _ask_without_gpu(self) -> CudaReport:
        from binary_checks.probes.ask_module.reader import demand_module

        request = self.get(CudaRequest)
        demand_module(request)  # before anything is installed for nothing
        return self._try_out().ask_without_gpu(request)

    def _ask_others(self) -> SecondOpinion:
        from binary_checks.gather.rereading import gather_opinion  # of few runs

        return gather_opinion(self.get(Package), self._source.open)

    def _use_gpu(self) -> GpuReport:
        from binary_checks.probes.gpu_torch.reader import demand_gpu, demand_work

        request = self.get(GpuRequest)
        demand_work(request)
        demand_gpu(self.settings.python, sandbox=self.settings.sandbox)
        return self._try_out().use_gpu(request, self.get(CudaRequest))

    def _try_out(self) -> Trial:
        return cast("Trial", self._remember(_TRIAL, self._open_trial))

    def _open_trial(self) -> Trial:
        from binary_checks.gather.trial import (
            Trial,  # what only runs packages is not loaded to read them
        )

        package = self.get(Distribution)
        if not isinstance(package, (Wheel, InstalledPackage)):
            raise NotApplicable(f"a {type(package).__name__} is not run")
        return Trial(
            package,
            python=self.settings.python,
            beside=self._shelf.given,
            timeout=self.settings.profile.timeout,
            builds=self.settings.builds,
            sandbox=self.settings.sandbox,
        )
