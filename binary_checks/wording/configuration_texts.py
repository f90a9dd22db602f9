"""How a binary configuration is spelled in one line, and a claim of it in a sentence."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.model.binary_configuration import (
    BinaryConfiguration,
    ClaimSource,
    ConfigurationClaim,
    LinkedLibraries,
    LinkedLibrary,
    Linking,
    find_disputes,
)

ASPECT_WORDS = {
    "kind": "the kind of package",
    "python": "Python",
    "accelerator": "the accelerator",
    "system": "the system",
    "architecture": "the architecture",
    "cxx_abi": "the C++ ABI",
    "libtorch_variant": "the libtorch variant",
    "channel": "the channel",
    "version": "the version",
    "date": "the date",
}
_PREFIXES = {"python": "Python ", "cxx_abi": "C++ ABI ", "date": "of "}
_MOST = 6  # values of one aspect: a package may be for several Pythons


def describe_configuration(configuration: BinaryConfiguration) -> str:
    """Say all that is known of it, with a mark where sources contradict each other."""
    return ", ".join(_describe(configuration))


def _describe(configuration: BinaryConfiguration) -> Iterator[str]:
    for name, aspect in configuration.aspects():
        if not aspect.value:
            continue
        values = aspect.value.split(", ")
        more = f" and {len(values) - _MOST} more" if len(values) > _MOST else ""
        disputed = any(not one.by_absence for one, _ in find_disputes(name, aspect.claims))
        mark = " (disputed)" if disputed else ""
        yield f"{_PREFIXES.get(name, '')}{' or '.join(values[:_MOST])}{more}{mark}"


def say_claim(claim: ConfigurationClaim) -> str:
    """Say who says what: "DESIRED_CUDA=cu126 says cuda 12.6"."""
    if claim.source is ClaimSource.BYTES:
        return f"{claim.evidence}: {claim.value}"
    return f"{claim.evidence} says {claim.value}"


def describe_linked(linked: LinkedLibraries) -> Iterator[tuple[str, str]]:
    """Say what is linked in, what is needed and from where, and who compiled it, each a line."""
    for linking in (Linking.STATIC, Linking.DYNAMIC):
        places: dict[str, list[str]] = {}
        for each in linked.libraries:
            if each.linking is linking:
                name = f"{each.name} {each.version}".rstrip()
                places.setdefault(name, []).append(_place_library(each))
        if places:
            shown = (f"{name} ({', '.join(where)})" for name, where in places.items())
            yield linking.value, ", ".join(shown)
    if linked.compilers:
        yield "compilers", ", ".join(linked.compilers)


def _place_library(library: LinkedLibrary) -> str:
    if library.whence is not None:
        return f"{library.whence.value} {library.file}"
    more = f" and {library.objects - 1} more" if library.objects > 1 else ""
    return f"in {library.evidence.partition(': ')[0].rpartition('/')[2]}{more}"
