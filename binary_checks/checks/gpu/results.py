"""Faults of a package whose results or libraries on a GPU are not what they should be."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.utils import canonicalize_name

from binary_checks.check import check
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    Distribution,
    Finding,
    GpuReport,
    LibraryVersions,
    Measurement,
    Note,
    NotLooked,
    Outcome,
)
from binary_checks.model.requirements import read_requirement

_OTHER_FIGURES = frozenset({"seconds", "devices", "bytes kept", "bytes returned"})


@check
def gpu_result_differs(
    report: GpuReport,
    *,
    float64: float = 1e-10,
    float32: float = 1e-4,
    float16: float = 5e-3,
    bfloat16: float = 4e-2,
) -> Iterator[Finding]:
    """A result that a GPU comes to is not the CPU's.

    The figure is the norm of the difference by the norm of the CPU's result in float64, from inputs
    rounded to the dtype that is judged; the bounds, an option for each dtype, are a hundred times
    (float64, float32) or ten times (float16, bfloat16) what rounding alone comes to in sums of
    1000 products. TF32 does not stand for float32 here.

    Why: nobody sees it: nothing fails, and the figures are wrong.

    Fix: look for a library of another version than the package was built with, and for code of
    another architecture.
    """
    bounds = {"float64": float64, "float32": float32, "float16": float16, "bfloat16": bfloat16}
    measured = [each for each in report.measurements if each.name not in _OTHER_FIGURES]
    if not report.steps:
        raise NotApplicable("the profile has no step taken")
    if not measured:
        yield NotLooked(sentence="no step came to a result")
    for sentence in _spell_worst(measured, bounds):
        yield Note(sentence=sentence)
    for figure in measured:
        bound = bounds.get(figure.name)
        if bound is None:
            yield NotLooked(sentence=f"{figure.step}: no bound for {figure.name}")
        elif not figure.value <= bound:  # NaN is no result either
            yield (
                f"{figure.step} in {figure.name} differs from the CPU's result by more than "
                f"{bound:g} of it"
            )
    for step in report.steps:
        if step.outcome is not Outcome.OK and not step.finished:
            yield NotLooked(sentence=f"{step.name} did not succeed, which gpu-work-fails says")


def _spell_worst(measured: list[Measurement], bounds: dict[str, float]) -> Iterator[str]:
    """Say of each dtype how near the results within its bound come to it."""
    for name, bound in bounds.items():
        within = [each for each in measured if each.name == name and each.value <= bound]
        if within:
            worst = max(within, key=lambda each: each.value)
            yield f"{name}: {worst.value:.0e} in {worst.step}, where {bound:g} is allowed"


@check
def gpu_libraries_disagree(
    report: GpuReport,
    package: Distribution,
    *,
    compiled: dict[str, str] | None = None,
    newer: bool = True,
) -> Iterator[Finding]:
    """An NVIDIA library in the process is another than the one built with, installed or pinned.

    Compared by three numbers. Pinned is what the package requires itself, or what an installed
    distribution such as ``cuda-toolkit`` requires for it. The option ``compiled`` has a Python
    expression for each library (``cudnn = "torch._C._cudnn.getCompileVersion()"``) that gives the
    version of its headers, None in a build without it; a loaded one of the same major version may
    be newer, unless ``newer = false``.

    Why: an older library lacks functions and fails at their first use, another one than the
    installed was found in a folder that nobody meant, and its results are nobody's tested ones.

    Fix: pin the libraries to what the package is built with, and let its search paths lead to them
    before anything else.
    """
    known = {each.name: each for each in report.versions}
    for name in sorted(name for name in compiled or {} if _is_untold(known.get(name))):
        yield NotLooked(sentence=f"{name}: the package does not say what it was built with")
    if not known:
        raise NotApplicable("the package loads none of NVIDIA's libraries")
    pins = dict(_find_pins(package))
    for each in report.versions:
        yield from _compare(each, pins.get(each.name, "") or each.pinned, newer=newer)


def _is_untold(versions: LibraryVersions | None) -> bool:
    """Whether a library is there, for all that is known, of unknown headers."""
    if versions is None:
        return True
    return not versions.compiled and bool(versions.loaded or versions.installed)


def _compare(versions: LibraryVersions, pin: str, *, newer: bool) -> Iterator[Finding]:
    name, loaded = versions.name, versions.loaded
    if not loaded:
        if versions.compiled:
            yield NotLooked(sentence=f"{name}: it is not loaded, or does not say its version")
        return
    if versions.compiled and not _serves(loaded, versions.compiled, newer=newer):
        yield f"{name} {loaded} is loaded, the package was built with {versions.compiled}"
    if versions.installed and _cut(loaded) != _cut(versions.installed, _length(loaded)):
        yield f"{name} {loaded} is loaded, {versions.installed} is installed"
    if pin and _cut(loaded) != _cut(pin, _length(loaded)):
        yield f"{name} {loaded} is loaded, the package requires {pin}"


def _serves(loaded: str, built: str, *, newer: bool) -> bool:
    length = min(_length(loaded), _length(built))
    one, other = _cut(loaded, length), _cut(built, length)
    return one == other or (newer and one[:1] == other[:1] and one > other)


def _length(version: str) -> int:
    return min(version.count(".") + 1, 3)


def _cut(version: str, length: int = 3) -> tuple[int, ...]:
    parts = (part for part in version.split(".")[:length])
    return tuple(int(part) if part.isdecimal() else -1 for part in parts)


def _find_pins(package: Distribution) -> Iterator[tuple[str, str]]:
    """Find the exact versions of NVIDIA's distributions that it requires, by library."""
    for requirement in map(read_requirement, package.requires_dist):
        if requirement is None:
            continue
        prefix, _, rest = canonicalize_name(requirement.name).partition("-")
        versions = [each.version for each in requirement.specifier if each.operator == "=="]
        if prefix == "nvidia" and versions and "*" not in versions[0]:
            yield rest.partition("-cu")[0], versions[0]
