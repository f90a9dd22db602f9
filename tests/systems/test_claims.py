from __future__ import annotations

import pytest
from packaging.tags import parse_tag

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import Claims, PythonClaim, SystemClaim, TargetSystem
from binary_checks.systems import target_for


def target(*systems: SystemClaim, pythons: tuple[PythonClaim, ...] = ()) -> TargetSystem:
    return target_for(Claims(systems=systems, pythons=pythons), frozenset())


def conda_linux(minimum: tuple[int, int] | None) -> SystemClaim:
    return SystemClaim(
        name="linux-64",
        system="linux",
        libc="glibc" if minimum else "",
        minimum=minimum,
        architectures=("x86_64",),
    )


def test_a_package_that_is_no_wheel_gets_the_policy_of_the_glibc_that_it_claims() -> None:
    python = PythonClaim(name="python 3.11", implementation="cpython", version=(3, 11), abi="cp311")
    found = target(conda_linux((2, 17)), pythons=(python,))
    assert found.name == "linux-64, CPython 3.11"
    assert found.policy is not None
    assert found.policy.name == "manylinux_2_17"
    wheel = target_for(read_claims(parse_tag("cp311-cp311-manylinux2014_x86_64")), frozenset())
    assert (found.policy, found.libraries, found.interpreter) == (
        wheel.policy,
        wheel.libraries,
        wheel.interpreter,
    )


def test_without_a_glibc_nothing_is_promised() -> None:
    found = target(conda_linux(None))
    assert (found.policy, found.interpreter) == (None, None)
    assert "libmvec.so.1" in found.libraries


def test_a_claim_of_macos_without_a_version_promises_the_oldest_there_are_data_of() -> None:
    found = target(SystemClaim(name="osx-64", system="macos", architectures=("x86_64",)))
    assert (found.minimum_os, found.architectures) == ((10, 9), ("x86_64",))
    arm = target(SystemClaim(name="osx-arm64", system="macos", architectures=("aarch64",)))
    assert arm.minimum_os == (11, 0)


def test_a_claim_of_windows_is_judged_by_its_architecture() -> None:
    found = target(SystemClaim(name="win-64", system="windows", architectures=("x86_64",)))
    assert (found.name, found.system) == ("win-64", "windows")


def test_claims_of_no_system_have_no_loader() -> None:
    with pytest.raises(NotApplicable, match="no loader for no system"):
        target()
    with pytest.raises(NotApplicable, match="no loader for noarch"):
        target(SystemClaim(name="noarch", system="any"))


def test_a_system_that_nobody_knows_is_not_inspected() -> None:
    with pytest.raises(Unavailable, match="the loader of that system is not simulated"):
        target(SystemClaim(name="zos-z"))


def test_what_the_tags_of_a_wheel_claim() -> None:
    claims = read_claims(
        parse_tag("cp313-cp313t-macosx_10_13_universal2.musllinux_1_2_aarch64"),
        version="1.0+cu126",
        metadata=(("Name", "demo"), ("Requires-Dist", "numpy>=2"), ("requires-dist", "torch")),
    )
    assert claims == Claims(
        systems=(
            SystemClaim(
                name="macosx_10_13_universal2",
                system="macos",
                minimum=(10, 13),
                architectures=("x86_64", "aarch64"),
            ),
            SystemClaim(
                name="musllinux_1_2_aarch64",
                system="linux",
                libc="musl",
                minimum=(1, 2),
                architectures=("aarch64",),
            ),
        ),
        pythons=(
            PythonClaim(
                name="cp313-cp313t",
                implementation="cpython",
                version=(3, 13),
                abi="cp313t",
                free_threaded=True,
            ),
        ),
        requirements=("numpy>=2", "torch"),
        variant="cu126",
    )


@pytest.mark.parametrize(
    ("tag", "implementation", "version", "abi"),
    [
        ("py3-none-any", "", None, ""),
        ("py310-none-any", "", (3, 10), ""),
        ("cp39-abi3-any", "cpython", (3, 9), "abi3"),
        ("pp310-pypy310_pp73-any", "pypy", (3, 10), "pypy310_pp73"),
        ("odd-none-any", "odd", None, ""),
    ],
)
def test_what_interpreter_and_abi_of_a_tag_claim(
    tag: str, implementation: str, version: tuple[int, int] | None, abi: str
) -> None:
    (found,) = read_claims(parse_tag(tag)).pythons
    assert (found.implementation, found.version, found.abi) == (implementation, version, abi)


@pytest.mark.parametrize(
    ("platform", "system", "architectures"),
    [
        ("any", "any", ()),
        ("manylinux1_i686", "linux", ("i686",)),
        ("win32", "windows", ("i686",)),
        ("win_ia64", "windows", ()),
        ("macosx_11_0_odd", "macos", ()),
        ("android_21_arm64_v8a", "android", ("aarch64",)),
        ("freebsd_13_amd64", "", ("x86_64",)),
    ],
)
def test_what_a_platform_tag_claims(
    platform: str, system: str, architectures: tuple[str, ...]
) -> None:
    (found,) = read_claims(parse_tag(f"py3-none-{platform}")).systems
    assert (found.name, found.system, found.architectures) == (platform, system, architectures)
