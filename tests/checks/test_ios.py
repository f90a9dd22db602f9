"""Checks of wheels for iOS tell devices from simulators, and see what an app moves."""

from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from binary_checks.checks.ios import minimum_ios_above_tag, not_for_ios
from binary_checks.checks.linkage.needed_libraries import libpython_linked, missing_library
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.tags import read_claims
from binary_checks.loaders import simulate
from binary_checks.model import (
    Linkage,
    MachOFile,
    NotInspected,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.systems import target_for
from fixtures.linking import needs
from fixtures.values import macho_file, only, symbols, wheel

DEVICE, SIMULATOR = "ios_13_0_arm64_iphoneos", "ios_13_0_arm64_iphonesimulator"
INTEL = "ios_13_0_x86_64_iphonesimulator"
PYTHON = "@rpath/Python.framework/Python"


def ios(tag: str) -> TargetSystem:
    return target_for(read_claims(parse_tag(f"cp313-cp313-{tag}")), frozenset())


def module(*needed: str, sdk: str = "iphoneos", **fields: object) -> MachOFile:
    usual: dict[str, object] = {
        "architecture": "aarch64",
        "platforms": ("ios",) if sdk == "iphoneos" else ("iossimulator",),
        "minimum_os": "13.0",
        "needed": needs(*needed),
        "exports": symbols("PyInit__native"),
    }
    return macho_file(f"demo/_native.cpython-313-{sdk}.so", **{**usual, **fields})


def link(*objects: MachOFile, tag: str = DEVICE) -> tuple[Linkage, Package, TargetSystem]:
    package = wheel(f"demo-1.0-cp313-cp313-{tag}.whl", objects=objects)
    return simulate(package, ios(tag)), package, ios(tag)


@pytest.mark.parametrize(
    ("platforms", "tag", "fits"),
    [
        (("ios",), DEVICE, True),
        (("iossimulator",), SIMULATOR, True),
        (("iossimulator",), DEVICE, False),
        (("ios",), SIMULATOR, False),
        (("macos",), DEVICE, False),
        (("maccatalyst",), SIMULATOR, False),
    ],
)
def test_devices_and_simulators_are_different_platforms(
    platforms: tuple[str, ...], tag: str, fits: bool
) -> None:
    found = list(not_for_ios(module(platforms=platforms), ios(tag)))
    assert found == [] if fits else isinstance(found[0], Problem)


def test_no_platform_that_of_old_simulators_and_other_systems_are_no_faults() -> None:
    intel = module(platforms=("ios",), architecture="x86_64")  # old simulators state this
    assert list(not_for_ios(intel, ios(INTEL))) == []
    assert only(NotInspected, not_for_ios(module(platforms=()), ios(DEVICE)))
    with pytest.raises(NotApplicable, match="no tag is for iOS"):
        list(not_for_ios(module(), TargetSystem(name="macosx_11_0_arm64", system="macos")))


def test_a_newer_ios_than_the_tag_is_named() -> None:
    problem = only(Problem, minimum_ios_above_tag(module(minimum_os="15.0"), ios(DEVICE)))
    assert problem.sentence == f"is built for iOS 15.0, but {DEVICE} promises 13.0"
    assert list(minimum_ios_above_tag(module(minimum_os="13.0"), ios(DEVICE))) == []
    # cffi 2.1.1 is built for 14.0: no simulator on ARM is older, whatever the tag says
    item = module(sdk="iphonesimulator", minimum_os="14.0")
    assert list(minimum_ios_above_tag(item, ios(SIMULATOR))) == []


def test_python_and_the_system_are_there_and_others_are_unknown() -> None:
    linkage, package, _ = link(module("/usr/lib/libSystem.B.dylib", PYTHON, "/usr/lib/libq.dylib"))
    assert only(NotInspected, missing_library(linkage, package))
    with pytest.raises(NotApplicable):
        list(libpython_linked(linkage, package))


@pytest.mark.parametrize(
    ("framework", "found"),
    [("Vision", []), ("AVFAudio", ["iOS 14 and later"]), ("AppKit", [])],
)
def test_frameworks_have_a_first_version(framework: str, found: list[str]) -> None:
    name = f"/System/Library/Frameworks/{framework}.framework/{framework}"
    package = wheel(f"demo-1.0-cp313-cp313-{DEVICE}.whl", objects=(module(name),))
    linkage = simulate(package, ios(DEVICE))
    assert [edge.partly for edge in linkage.edges if edge.partly] == found
