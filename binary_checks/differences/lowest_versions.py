"""The oldest systems, Pythons, NumPys, CPUs, CUDAs and drivers that a build runs with."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from binary_checks.declaring import difference
from binary_checks.differences.changes import describe, format_version, list_names
from binary_checks.errors import Unavailable
from binary_checks.knowledge.cuda import (
    cudas_of,
    cudas_of_files,
    lowest_driver,
)
from binary_checks.knowledge.inventory import newest_stable_symbol
from binary_checks.knowledge.library_names import (
    is_next_to_python_exe,
    is_redistributable,
    toolset_of,
)
from binary_checks.knowledge.linked_libraries import pair_objects, plain_path
from binary_checks.knowledge.tags import find_lowest_tags, is_loaded
from binary_checks.model import (
    BinaryConfiguration,
    Build,
    Change,
    Distribution,
    ElfFile,
    NumpyBuild,
    Package,
    PeFile,
    Policy,
    Severity,
    read_numbers,
    read_requirement,
)
from binary_checks.systems import policies
from binary_checks.wording.sentences import name_first

_NODE = re.compile(
    r"(GLIBC|GLIBCXX|CXXABI|GCC|GFORTRAN|GOMP|OMP|CXXABI_FLOAT128)_(\d{1,6}(?:\.\d{1,6})*)"
)
# the toolset since which std::mutex crashes older runtimes (Visual Studio 2022 17.10)
_CONSTANT_MUTEX = (14, 40)
_Version = tuple[int, ...]
_ONE_DRIVER = 11  # the CUDA major version since which all its releases run on the same drivers
_LEVELS = ("", "x86-64-baseline", "x86-64-v2", "x86-64-v3", "x86-64-v4")


@difference
def system_versions(old: Package, new: Package) -> Iterator[Change]:
    """The newest glibc, libstdc++ and libgcc that a build's objects need from the system.

    A newer version is a break if it exceeds what the old build promised; otherwise it is only
    noted.
    """
    before, after = _newest_nodes(old), _newest_nodes(new)
    promised = _promised_policy(old)
    for prefix in sorted(before.keys() & after.keys()):
        (was, _), (now, paths) = before[prefix], after[prefix]
        if now == was:
            continue
        node, former = (f"{prefix}_{'.'.join(map(str, each))}" for each in (now, was))
        if now < was:
            text = f"needs no more than {node}, previously {former}"
            yield Change(severity=Severity.INFO, sentence=text)
            continue
        allowed = None if promised is None else promised.allows(node)
        severity = {None: Severity.CHANGE, True: Severity.INFO, False: Severity.BREAK}[allowed]
        one = f"needs {node}, previously no object needed more than {former}"
        several = f"need {node}, previously none needed more than {former}"
        yield from list_names("objects", paths, severity, one, several)


def _newest_nodes(package: Package) -> dict[str, tuple[_Version, list[str]]]:
    """Map each prefix to the newest version needed from the system and the objects that need it."""
    own = {name for item in package.objects for name in (item.file_name, item.name)}
    found: dict[str, dict[_Version, dict[str, None]]] = {}
    for item in filter(is_loaded, package.objects_of(ElfFile)):
        path = plain_path(package.layout, item.path)
        for need in item.symbol_versions:
            match = _NODE.fullmatch(need.version)
            if match is not None and not need.weak and need.library not in own:
                version = tuple(map(int, match[2].split(".")))
                found.setdefault(match[1], {}).setdefault(version, {})[path] = None
    return {
        prefix: (max(versions), [*versions[max(versions)]]) for prefix, versions in found.items()
    }


def _promised_policy(package: Package) -> Policy | None:
    """Return the policy of the lowest glibc that a package promises; None if it promises none."""
    claims = [
        (claim.minimum, claim.architectures)
        for claim in package.claims.systems
        if claim.libc == "glibc" and claim.minimum and claim.architectures
    ]
    minimum, architectures = min(claims, default=(None, ()))
    known = policies("glibc", architectures[0]) if architectures else ()
    fitting = [each for each in known if minimum is not None and each.minimum <= minimum]
    return fitting[-1] if fitting else None


@difference
def lowest_macos(old: Build, new: Build) -> Iterator[Change]:
    """The oldest macOS that a build's objects run on, by headers and imported symbols."""
    if not all(
        any(claim.system == "macos" for claim in each.package.claims.systems) for each in (old, new)
    ):
        return
    before, after = (
        {
            tag.architecture: tag
            for tag in find_lowest_tags(each.package, each.linkage)
            if tag.family == "macosx"
        }
        for each in (old, new)
    )
    promised = [c.minimum for c in old.package.claims.systems if c.system == "macos" and c.minimum]
    for architecture in sorted(before.keys() & after.keys()):
        was, now = before[architecture].version, after[architecture].version
        if was is None or now is None or was == now:
            continue
        needs = dict.fromkeys(reason.need for reason in after[architecture].reasons)
        because = f" ({name_first(needs)})" if now > was and needs else ""
        on = f" on {architecture}" if len(after) > 1 else ""
        yield Change(
            severity=_judge(was, now, promised),
            sentence=f"runs{on} on macOS {format_version(now)} and later, "
            f"previously {format_version(was)}{because}",
        )


def _judge(was: _Version, now: _Version, promised: Collection[_Version]) -> Severity:
    """Return how severe another oldest version is: a break if it exceeds what was promised."""
    beyond = now > was and not (promised and now <= min(promised))
    return Severity.BREAK if beyond else Severity.INFO


@difference
def visual_cpp_runtime(old: Package, new: Package) -> Iterator[Change]:
    """Microsoft's toolset, if users must have a runtime of at least that version."""
    was, now = (
        max(
            filter(
                None,
                map(
                    toolset_of,
                    (e for e in build.objects_of(PeFile) if not is_redistributable(e.file_name)),
                ),
            ),
            default=None,
        )
        for build in (old, new)
    )
    # a part of the runtime that neither the package nor Python has
    own = {item.file_name.lower() for item in new.objects}
    needed = {need.name.lower() for item in new.objects_of(PeFile) for need in item.needed} - own
    lacking = any(is_redistributable(n) and not is_next_to_python_exe(n) for n in needed)
    if was and now and was < now and lacking:
        yield Change(
            severity=Severity.CHANGE if was < _CONSTANT_MUTEX <= now else Severity.INFO,
            sentence=f"needs the Visual C++ runtime {format_version(now)} or later, "
            f"previously {format_version(was)}",
        )


@difference
def stable_abi(old: Package, new: Package) -> Iterator[Change]:
    """The oldest Python that has all functions of the stable ABI that a build imports."""
    claims = [old.claims.pythons, new.claims.pythons]
    if not all(any(claim.abi.startswith("abi3") for claim in each) for each in claims):
        return
    was, now = newest_stable_symbol(old.objects), newest_stable_symbol(new.objects)
    if was and now and was[0] != now[0]:
        floors = [c.version for c in old.claims.pythons if c.version and c.abi.startswith("abi3")]
        yield Change(
            severity=_judge(was[0], now[0], floors),
            sentence=f"imports {now[1]}, of Python {format_version(now[0])} and later; "
            f"previously nothing newer than {format_version(was[0])}",
        )


@difference
def numpy_api(old: Distribution, new: Distribution) -> Iterator[Change]:
    """The oldest NumPy that a build's objects run with, by the NumPy they were compiled for.

    Only objects in both builds are compared, as a new object may be for newer NumPys only; nothing
    is reported if the package requires at least the newer NumPy.
    """
    pairs = [(pair.old.numpy, pair.new.numpy) for pair in pair_objects(old, new).pairs]
    raised = [(was, now) for was, now in pairs if was and now and _rank(was) < _rank(now)]
    if not raised or new.name.lower() == "numpy":
        return
    was, now = max(raised, key=lambda pair: _rank(pair[1]))
    required = (
        read_numbers(each.version)
        for item in filter(None, map(read_requirement, new.requires_dist))
        if item.name.lower() == "numpy" and "extra" not in str(item.marker)
        for each in item.specifier
        if each.operator in (">=", "~=", "==", ">")
    )
    if all(version < _rank(now)[1] for version in required):
        yield Change(
            severity=Severity.CHANGE,
            sentence=f"runs with NumPy {_oldest(now)} and later, previously {_oldest(was)}",
        )


def _rank(build: NumpyBuild) -> tuple[int, tuple[int, ...]]:
    return build.api, read_numbers(_oldest(build))


def _oldest(build: NumpyBuild) -> str:
    return build.oldest or f"{build.api}.0"


@difference
def cpu_level(old: ElfFile, new: ElfFile) -> Iterator[Change]:
    """The x86-64 level that an object requires of the CPU."""
    ranks = {name: rank for rank, name in enumerate(_LEVELS)}
    was, now = (ranks.get(each.isa_level, 9) for each in (old, new))
    if old.isa_level != new.isa_level:
        text = f"a CPU of level {new.isa_level or 'x86-64'}, previously {old.isa_level or 'x86-64'}"
        yield describe(Severity.BREAK if now > was else Severity.INFO, "need", text)


@difference
def accelerator(old: BinaryConfiguration, new: BinaryConfiguration) -> Iterator[Change]:
    """The accelerator that a build was made for: only the CPU, or a version of CUDA or of ROCm."""
    was, now = old.accelerator.value, new.accelerator.value
    if was != now and was and now:
        major = was.split(".")[0] != now.split(".")[0]
        yield Change(
            severity=Severity.BREAK if major else Severity.CHANGE,
            sentence=f"is built for {now}, previously for {was}",
        )


@difference
def nvidia_driver(old: Build, new: Build) -> Iterator[Change]:
    """The oldest NVIDIA driver that runs a CUDA build, by NVIDIA's table of CUDA's versions.

    A build for several versions of CUDA runs with the driver of the oldest. PTX needs the driver of
    the toolkit that made it, which no file records: drivers for PTX are not compared.
    """
    configurations = [each.configuration for each in (old, new)]
    if not all(each and each.accelerator.value.startswith("cuda") for each in configurations):
        return
    was, now = _oldest_cuda(old), _oldest_cuda(new)
    if was.split(".")[0] == now.split(".")[0] and int(now.split(".")[0]) >= _ONE_DRIVER:
        return
    before, after = _driver_of(old, was), _driver_of(new, now)
    if before != after:
        raised = read_numbers(after) > read_numbers(before)
        yield Change(
            severity=Severity.BREAK if raised else Severity.INFO,
            sentence=f"needs NVIDIA driver {after} or later, for CUDA {now}; "
            f"previously {before}, for CUDA {was}",
        )


def _oldest_cuda(build: Build) -> str:
    known = cudas_of(build.configuration.accelerator.value) if build.configuration else ()
    found = known or cudas_of_files(item.path for item in build.package.objects)
    if not found:
        raise Unavailable(f"the CUDA version and driver of {build.label} are not known")
    return found[0]


def _driver_of(build: Build, cuda: str) -> str:
    """Return the lowest driver on any of the systems that the build is for."""
    systems = sorted({claim.system for claim in build.package.claims.systems})
    found = next(filter(None, (lowest_driver(cuda, each) for each in systems)), "")
    if not found:
        raise Unavailable(f"the lowest driver of {build.label}, for CUDA {cuda}, is not known")
    return found
