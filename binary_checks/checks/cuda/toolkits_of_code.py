"""Whether device code was made by the toolkit that the package states, and for which drivers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable, ProfileError
from binary_checks.knowledge.cuda_drivers import (
    cuda_of_ptx,
    exceeds_driver,
    is_driver,
    lowest_driver,
    newest_driver,
    oldest_driver_of_ptx,
)
from binary_checks.knowledge.device_containers import find_carriers, first_of
from binary_checks.knowledge.nvidia_names import is_nvidia_library
from binary_checks.knowledge.toolkit_claims import (
    claim_by_file_name,
    claim_by_needs,
    contradicts,
    leave_outliers_out,
    rank,
)
from binary_checks.model import (
    DeviceContainers,
    DeviceKind,
    Finding,
    Level,
    Note,
    NotInspected,
    ObjectFile,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.model.binary_configuration import (
    Platform,
    StatedToolkits,
    ToolkitClaim,
    ToolkitSource,
)
from binary_checks.model.device import DeviceToolkits, ToolkitSample
from binary_checks.model.system import read_numbers
from binary_checks.wording.phrases import name_first


@check
def device_code_of_other_cuda(
    package: Package, stated: StatedToolkits, toolkits: DeviceToolkits
) -> Iterator[Finding]:
    """Device code was made by another CUDA toolkit than the package states.

    Each cubin records the toolkit that assembled it, and each text of PTX the version of the
    language that its toolkit writes. Up to 16 of each kind are decompressed, spread over the whole
    object. They are compared with the version label, the name, the files that the build generated,
    the requirements and the libraries that the object needs, or with the version in the object's
    own name (``libdemo_cuda118.so``). A minor version counts against labels and generated files
    alone. An object fails where none of its code fits; code of several toolkits, such as that of a
    vendor's static archive, is noted. NVIDIA's own libraries are not judged, nor are loose cubins.
    Where the sources contradict each other, the version that most of them state counts;
    cuda-versions-differ reports the others.

    Why: the build found another toolkit than the one it was named after. Its code needs the drivers
    of that one, and users who chose the package for an older driver cannot run it.
    Fix: build from a clean folder, with CUDA_HOME and nvcc of the toolkit that the label names.
    Level: the code fails with the drivers that the label promises. Where only a minor version in a
    generated file is another, it is a warning.
    """
    if not toolkits.samples:
        raise NotApplicable("no code for NVIDIA's GPUs in the package")
    by_path = {item.path: item for item in package.objects}
    samples = [each for each in toolkits.samples if _is_judged(by_path[each.path])]
    if not samples:
        raise NotApplicable("no object of its own has code for NVIDIA's GPUs")
    yield from tell_unread(samples)
    judged, settled = False, leave_outliers_out(stated.claims)
    for sample in samples:
        item = by_path[sample.path]
        claims = list(claim_by_file_name(item.path)) or [*settled, *claim_by_needs(item)]
        claims = [each for each in claims if each.platform is Platform.CUDA and each.version]
        judged = judged or bool(claims)
        if claims and sample.seen:
            yield from _judge(sample, claims)
    if not judged:
        raise NotApplicable("nothing states a CUDA version")


def _is_judged(item: ObjectFile) -> bool:
    name = item.path.rpartition("/")[2]
    return item.architecture != "cuda" and not is_nvidia_library(name)


def tell_unread(samples: Iterable[ToolkitSample]) -> Iterator[NotInspected]:
    """Report each object that could not be read; code that is broken is for others to report."""
    for each in samples:
        if each.unread:
            sentence = f"its device code could not be read: {each.unread}"
            yield NotInspected(path=each.path, sentence=sentence)


def _judge(sample: ToolkitSample, claims: list[ToolkitClaim]) -> Iterator[Finding]:
    """Hold what made the object against the most visible of those that it contradicts."""
    made = [_claim(version, sample) for version, _ in sample.toolkits if version]
    what = f"device code made by CUDA {_list(made)}"
    if not made:  # older toolkits write older PTX, and so do compilers of other vendors
        newest = max(
            (cuda_of_ptx(version) for version, _ in sample.ptx), key=read_numbers, default=""
        )
        made = [_claim(newest, sample)] if newest else []
        what = f"PTX as CUDA {newest} writes it"
        claims = [each for each in claims if made and _is_newer(made[0], each)]
    against = [each for each in claims if made and all(_differs(one, each) for one in made)]
    if against:
        claim = min(against, key=rank)
        yield Problem(
            path=sample.path,
            sentence=f"has {what}, while {claim.evidence} says {claim.statement}: it was built "
            "with another toolkit",
            level=_weigh(made, claim),
        )
    elif len({each.version for each in made}) > 1:
        listed = ", ".join(f"{count} by {version}" for version, count in sample.toolkits)
        yield Note(
            path=sample.path,
            sentence=f"has device code of several toolkits ({listed}{_share([sample], '; ')})",
        )


def _claim(version: str, sample: ToolkitSample) -> ToolkitClaim:
    return ToolkitClaim(
        platform=Platform.CUDA,
        version=version,
        source=ToolkitSource.DEVICE_CODE,
        evidence="its device code",
        path=sample.path,
    )


def _differs(made: ToolkitClaim, claim: ToolkitClaim) -> bool:
    """Requirements are of what is installed, which may be a newer minor version."""
    if claim.source in (ToolkitSource.LABEL, ToolkitSource.NAME, ToolkitSource.FILE):
        return contradicts(made, claim)
    return made.version.partition(".")[0] != claim.version.partition(".")[0]


def _is_newer(made: ToolkitClaim, claim: ToolkitClaim) -> bool:
    length = claim.version.count(".") + 1
    return read_numbers(made.version)[:length] > read_numbers(claim.version)


def _weigh(made: list[ToolkitClaim], claim: ToolkitClaim) -> Level:
    majors = {each.version.partition(".")[0] for each in made}
    same_major = claim.version.partition(".")[0] in majors
    stated_in_file = claim.source is ToolkitSource.FILE and not claim.is_label
    return Level.WARNING if same_major and stated_in_file else Level.ERROR


def _list(made: list[ToolkitClaim]) -> str:
    return name_first(list(dict.fromkeys(each.version for each in made)), 3)


def _share(samples: Sequence[ToolkitSample], before: str) -> str:
    """How much of the code was inspected; "" where it is all of it."""
    seen, total = sum(each.seen for each in samples), sum(each.total for each in samples)
    return f"{before}{seen} of {total} entries inspected" if seen < total else ""


@check
def ptx_needs_newer_driver(
    package: Package, toolkits: DeviceToolkits, target: TargetSystem, *, driver: str = ""
) -> Iterator[Finding]:
    """PTX of a package is too new for the drivers that are to run it.

    A driver compiles no PTX of a newer toolkit than its own, although it runs machine code of
    every toolkit of its major version: PTX 9.1, as CUDA 13.1 writes it, needs driver 590.44.01,
    machine code of CUDA 13 only 580. A note names the oldest driver for PTX and for machine code.
    The option ``driver`` is the oldest driver that the project promises ("580.65.06"): newer PTX is
    a problem then. Without it, only containers that hold nothing but such PTX are, as a warning.

    Why: on such a driver "the provided PTX was compiled with an unsupported toolchain"; a GPU for
    which there is no machine code fails.
    Fix: build with an older toolkit, or add machine code for every GPU that is supported.
    Level: the code fails with drivers that the project itself promises.
    """
    if driver and not is_driver(driver):
        raise ProfileError(f"options.ptx-needs-newer-driver.driver: no version: {driver!r}")
    samples = [each for each in toolkits.samples if each.ptx or each.unread]
    if not samples:
        raise NotApplicable("no PTX in the package")
    yield from tell_unread(samples)
    alone = {item.path: group for item, group in _find_ptx_alone(package)}
    quiet: dict[str, list[ToolkitSample]] = {}
    for sample in (each for each in samples if each.ptx):
        version = max((version for version, _ in sample.ptx), key=read_numbers)
        found = list(_judge_ptx(sample, version, target.system, driver, alone.get(sample.path)))
        yield from found
        if not found:
            quiet.setdefault(version, []).append(sample)
    for version, those in sorted(quiet.items(), key=lambda each: read_numbers(each[0])):
        yield _note_driver(version, those, target.system)


def _find_ptx_alone(package: Package) -> Iterator[tuple[ObjectFile, DeviceContainers]]:
    """The first container of each object, of those that hold no machine code beside PTX."""
    for item in find_carriers(package):
        alone = [
            group
            for group in item.device_containers
            if group.targets and all(each.kind is DeviceKind.PTX for each in group.targets)
        ]
        if alone:
            yield item, first_of(alone)


def _judge_ptx(
    sample: ToolkitSample, version: str, system: str, driver: str, alone: DeviceContainers | None
) -> Iterator[Problem]:
    needed = oldest_driver_of_ptx(version, system)
    cuda = cuda_of_ptx(version)
    served = lowest_driver(cuda, system) if cuda else ""
    if driver and exceeds_driver(needed or newest_driver(system), driver):
        known = needed or f"a newer one than {newest_driver(system)}"
        yield Problem(
            path=sample.path,
            sentence=f"has PTX {version}, which needs driver {known}: {driver}, which the profile "
            "promises, does not compile it",
        )
    elif alone is not None and not driver and served and exceeds_driver(needed, served):
        yield Problem(
            path=sample.path,
            sentence=f"has containers with nothing but PTX, first at offset {alone.offset}: PTX "
            f"{version} needs driver {needed}, though CUDA {cuda.partition('.')[0]} runs on "
            f"{served}; add machine code",
            level=Level.WARNING,
        )


def _note_driver(version: str, samples: list[ToolkitSample], system: str) -> Note:
    """Say from which driver on the newest PTX of these objects is used, and their machine code."""
    cuda, needed = cuda_of_ptx(version), oldest_driver_of_ptx(version, system)
    others = f" (and {len(samples) - 1} more)" if len(samples) > 1 else ""
    written = f"PTX {version}{others}"
    if not needed:
        newest = newest_driver(system)
        sentence = f"has {written}, which no driver up to {newest} is known to compile"
        return Note(path=samples[0].path, sentence=sentence)
    served = lowest_driver(cuda, system)
    code = f", machine code runs on {served}" if any(each.toolkits for each in samples) else ""
    return Note(
        path=samples[0].path,
        sentence=f"has {written}, of CUDA {cuda}: driver {needed} and later ones compile it{code}"
        f"{_share(samples, '; ')}",
    )
