"""Gathers what a package is, what it promises and needs, and the place that it runs in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from binary_checks import loaders, systems
from binary_checks.declaring import gathers
from binary_checks.errors import NotApplicable, NoWheelError
from binary_checks.gather.companions import Shelf
from binary_checks.gather.description_rendering import DESCRIPTION, render_description
from binary_checks.gather.member_contents import MemberContents
from binary_checks.gather.module_reading import MODULES, read_modules
from binary_checks.gather.own_code import CODE, OwnCode
from binary_checks.gather.run_environment import RunEnvironment, lacks_required
from binary_checks.gather.settings import ReaderSettings, Settings
from binary_checks.gather.stated_toolkits import STATING, read_build_files
from binary_checks.knowledge.configurations import configure
from binary_checks.knowledge.cuda import find_copies
from binary_checks.knowledge.library_names import DRIVER_LIBRARIES, is_driver_library
from binary_checks.knowledge.linked_libraries import find_linked
from binary_checks.knowledge.toolkit_claims import claim_by_package
from binary_checks.loaders.loaded_before import find_loaded_before, is_in_doubt, leave_open
from binary_checks.loaders.reach import find_bystanders
from binary_checks.loaders.required_packages import find_families_beside, find_misfits
from binary_checks.model import (
    CodeNames,
    Distribution,
    InstallReport,
    Linkage,
    Package,
    SecondOpinion,
    TargetSystem,
    Wheel,
)
from binary_checks.model.binary_configuration import (
    BinaryConfiguration,
    LinkedLibraries,
    StatedToolkits,
)
from binary_checks.model.device import DeviceDetails, DeviceToolkits
from binary_checks.model.linkage import FamiliesBeside
from binary_checks.model.packages import CondaPackage, GivenPackages
from binary_checks.model.places import Place
from binary_checks.model.probes import PtxTexts
from binary_checks.model.protocols import Reading, Source
from binary_checks.model.published import Publication, PublishedFile, Release, RenderedDescription
from binary_checks.model.python_modules import ImportOpenings, PythonModules
from binary_checks.model.requests import (
    BuildsRequest,
    DeviceCodeRequest,
    PtxRequest,
    ReleaseRequest,
)
from binary_checks.model.requires_dist import GivenVersions, RequiredWheels
from binary_checks.profile.reading import Profile


@gathers(Reading)
def read_source(source: Source, settings: ReaderSettings) -> Reading:
    """Read the package, once for all facts. Raises PackageError."""
    return source.read(settings.reader, settings.progress, settings.wants)


@gathers(Package)
def take_package(reading: Reading) -> Package:
    """Take the package that was read."""
    return reading.package


@gathers(MemberContents)
def take_contents(reading: Reading, source: Source) -> MemberContents:
    """Take what was kept of its members."""
    return MemberContents(reading.package, reading.kept, source.open)


@gathers(Publication)
def hear_publication(source: Source) -> Publication:
    """Ask what is said of a published file. Raises NotApplicable for one that is here."""
    from binary_checks.gather import remote_reading  # of few runs

    return remote_reading.read_publication(remote_reading.demand_remote(source))


@gathers(PublishedFile)
def read_ranges(source: Source, reading: ReaderSettings) -> PublishedFile:
    """Read a few ranges of a published file. Raises NotApplicable for one that is here."""
    from binary_checks.gather import remote_reading

    return remote_reading.read_published(remote_reading.demand_remote(source), reading.reader)


@gathers(Release)
def compare_packages(
    source: Source, settings: Settings, request: ReleaseRequest, reading: ReaderSettings
) -> Release:
    """Read of each package of a release what holds for all. Raises NotApplicable for a package."""
    from binary_checks.gather.release_reading import read_release  # of few runs

    return read_release(source, request, reading.reader, settings.expected)


@gathers(TargetSystem)
def name_target(package: Package, profile: Profile) -> TargetSystem:
    """Name the system that the package promises to run on, with what the profile adds to it."""
    return systems.target_for(package.claims, profile.system_libraries, profile.dll_directories)


@gathers(BinaryConfiguration)
def find_configuration(package: Package, settings: Settings) -> BinaryConfiguration:
    """Say which of the many builds of its project the package is, by all who say it."""
    return configure(package, settings.stated)


@gathers(LinkedLibraries)
def find_linked_libraries(package: Package, linkage: Linkage | Package) -> LinkedLibraries:
    """Say how the package is linked with known libraries; of a simulated loader, whence too."""
    return find_linked(package, linkage if isinstance(linkage, Linkage) else None)


@gathers(OwnCode, wants=(CODE,))
def take_code(package: Package, contents: MemberContents) -> OwnCode:
    """Take the package's own code, which is searched for what a fact asks for."""
    return OwnCode(package, contents)


@gathers(CodeNames)
def find_code_names(code: OwnCode) -> CodeNames:
    """Find which of its objects the package's own code names."""
    return code.names


@gathers(StatedToolkits, wants=(STATING,))
def find_stated_toolkits(
    package: Package, contents: MemberContents, target: TargetSystem, request: BuildsRequest
) -> StatedToolkits:
    """Find which CUDA or ROCm label, name and requirements state, and the build's own files."""
    found = read_build_files(package, contents, request)
    return replace(found, claims=(*claim_by_package(package, target), *found.claims))


@gathers(Linkage)
def simulate_loader(
    source: Source,
    package: Package,
    target: TargetSystem,
    code: OwnCode,
    environment: RunEnvironment,
) -> Linkage:
    """Find what a loader would, among the package's own files and those of its requirements.

    What those given do not tell, the environment does that the run installs the package into.
    """
    shelf = environment.shelf
    linkage = _simulate(source, code, target, shelf)
    if lacks_required(linkage) and (installed := environment.find_installed(package.name)):
        refused = linkage.refused
        linkage = _simulate(source, code, target, shelf, installed)
        linkage = replace(linkage, refused=refused)
    tried = code.find_tried(linkage)
    return replace(linkage, bystanders=tuple(find_bystanders(package, linkage, code.names, tried)))


def _simulate(
    source: Source,
    code: OwnCode,
    target: TargetSystem,
    shelf: Shelf,
    installed: Source | None = None,
) -> Linkage:
    """Load what there is; and again with what imports have loaded before, where that matters.

    ``installed`` is the same package where others lie beside it.
    """
    package = code.package
    company = shelf.accompany(installed or source, package, target)
    others, requirements = company.packages, company.requirements
    simulate = partial(
        loaders.simulate, package, target, others, requirements, limit_factor=shelf.limit_factor
    )
    linkage = simulate()
    if not is_in_doubt(linkage):
        return linkage
    words = code.read_loading_words()
    before = find_loaded_before(linkage, words, others, target)
    if before.loads:
        linkage = leave_open(simulate(first_loads=before.loads), before.doubtful)
    return replace(linkage, loading_code=words.loading, loads_everywhere=words.everywhere)


@gathers(ImportOpenings)
def find_import_openings(package: Package, code: OwnCode, linkage: Linkage) -> ImportOpenings:
    """Find what the package's code opens; where nothing is of the driver, nobody asks that."""
    needs = (edge.needed for edge in (*linkage.edges, *linkage.edges_beside))
    if not any(map(is_driver_library, needs)) and not find_copies(
        package.objects, DRIVER_LIBRARIES
    ):
        return ImportOpenings()
    return code.find_import_openings()


@gathers(RequiredWheels)
def find_required_wheels(package: Wheel, target: TargetSystem, shelf: Shelf) -> RequiredWheels:
    """Download what the wheel requires, where the user asked for that."""
    if not shelf.fetches:
        raise NotApplicable("only with --binary-with-requirements")
    try:
        return RequiredWheels(found=len(shelf.required(package, target)))
    except NoWheelError as error:
        return RequiredWheels(lacking=error.lacking)


@gathers(GivenVersions)
def hold_versions(
    source: Source, package: Package, target: TargetSystem, shelf: Shelf
) -> GivenVersions:
    """Hold what was given beside the package against the requirements of all of them."""
    if not shelf.paths:
        raise NotApplicable("no package was given beside it (--binary-with)")
    others = shelf.accompany(source, package, target).packages
    return GivenVersions(misfits=find_misfits(package.claims.requirements, others, target))


@gathers(FamiliesBeside)
def find_families(
    source: Source, package: Package, target: TargetSystem, shelf: Shelf
) -> FamiliesBeside:
    """Find the libraries beside the package that open others of their vendor's family."""
    company = shelf.accompany(source, package, target)
    return find_families_beside(package, company.packages, company.requirements, target)


@gathers(GivenPackages)
def find_given(package: CondaPackage, source: Source, shelf: Shelf) -> GivenPackages:
    """Read the conda packages that were given beside one, or that its channels have for it."""
    beside = (*shelf.others(source.path), *shelf.required_conda(package))
    others = (each for each in beside if isinstance(each, CondaPackage))
    fitting = (each for each in others if each.subdir == package.subdir or each.noarch)
    return GivenPackages(packages=tuple(each for each in fitting if each.name != package.name))


@gathers(RenderedDescription, wants=(DESCRIPTION,))
def render(package: Distribution, contents: MemberContents) -> RenderedDescription:
    """Have the description rendered as PyPI does."""
    return render_description(package, contents)


@gathers(PythonModules, wants=MODULES)
def read_python(package: Distribution, contents: MemberContents) -> PythonModules:
    """Say what the modules bind that entry points and shared namespaces concern."""
    return read_modules(package, contents)


@gathers(PtxTexts)
def sample_ptx(package: Package, source: Source, request: PtxRequest) -> PtxTexts:
    """Decompress a sample of the PTX. Raises NotApplicable where there is none."""
    from binary_checks.gather.ptx_sampling import has_ptx, read_sample  # of few runs

    if not any(map(has_ptx, package.objects)):
        raise NotApplicable("no PTX in the package")
    return read_sample(package, source.open, request.bytes)


@gathers(DeviceDetails)
def read_device_details(
    package: Package, source: Source, profile: Profile, request: DeviceCodeRequest
) -> DeviceDetails:
    """Say what is in a sample of the code for NVIDIA's GPUs, or in all where that is asked for."""
    from binary_checks.knowledge.device_containers import find_carriers

    if next(find_carriers(package), None) is None:
        return DeviceDetails()
    from binary_checks.gather.device_reading import read_objects  # of GPU packages

    everything = request.thorough
    found = read_objects(package, source.open, profile.limit_factor, everything=everything)
    return DeviceDetails(objects=found)


@gathers(DeviceToolkits)
def tell_toolkits(details: DeviceDetails) -> DeviceToolkits:
    """Those that the sample states."""
    if not details.objects:
        return DeviceToolkits()
    from binary_checks.gather.device_reading import count_toolkits  # of GPU packages

    return DeviceToolkits(samples=tuple(count_toolkits(details.objects)))


@gathers(SecondOpinion)
def ask_others(package: Package, source: Source) -> SecondOpinion:
    """Have other libraries read every object, too."""
    from binary_checks.gather.rereading import gather_opinion  # of few runs

    return gather_opinion(package, source.open)


@gathers(Place)
def choose_place(package: Package, settings: Settings, shelf: Shelf, source: Source) -> Place:
    """Choose where the package runs; nothing is made or installed yet.

    What it requires comes from the channel that it is from itself, where the user named no other.
    """
    from binary_checks import places  # what only runs packages is not loaded to read them

    remote = source.remote()
    own = remote.provenance if remote is not None else None
    channels = (own.index,) if own is not None and own.kind == "channel" else ()
    return places.choose_place(
        package,
        places.PlaceSettings(
            name=settings.place,
            claims=package.claims,
            python=settings.python,
            timeout=settings.profile.timeout,
            sandbox=settings.sandbox or places.Sandbox(),
            given=shelf.given,
            channels=settings.channels or channels,
            builds=settings.builds,
        ),
    )


@gathers(InstallReport)
def install(place: Place, package: Package) -> InstallReport:
    """Install the package, and say what that left behind."""
    report = place.install(package)
    if report is None:
        raise NotApplicable("no installer put the package there in this run")
    return report
