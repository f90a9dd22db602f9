"""What a package claims becomes the system, and the Python, that it is judged for."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.tags import parse_tag

from binary_checks.errors import NotApplicable, Unavailable
from binary_checks.knowledge.tags import read_claims
from binary_checks.model import Claims, Policy, PythonClaim, SystemClaim, TargetSystem
from binary_checks.systems import target_for


def target(tags: str, *extra: str) -> TargetSystem:
    return target_for(read_claims(parse_tag(tags)), frozenset(extra))


def policy_of(tags: str) -> Policy:
    policy = target(tags).policy
    assert policy is not None
    return policy


def test_the_lowest_of_a_compressed_set_is_the_claim() -> None:
    found = target("cp39.cp310-abi3-manylinux_2_28_x86_64.manylinux2014_x86_64")
    assert found.name == "manylinux2014_x86_64, CPython 3.9"
    assert found.policy is not None
    assert found.policy.name == "manylinux_2_17"
    assert "libGL.so.1" in found.libraries
    assert found.policies[0].name == "manylinux_2_5"


def test_a_plain_linux_tag_promises_nothing_and_has_the_newest_libraries() -> None:
    found = target("cp311-cp311-linux_x86_64")
    assert found.policy is None
    assert "libmvec.so.1" in found.libraries


def test_a_tag_between_two_policies_promises_what_the_older_does() -> None:
    policy = policy_of("cp311-cp311-manylinux_2_29_x86_64")
    assert policy.name == "manylinux_2_28"
    assert policy.allows("GLIBC_2.29")  # PEP 600: what the tag says
    assert policy.allows("GLIBC_2.30") is False
    assert policy.allows("GLIBCXX_3.4.26") is False


def test_a_tag_newer_than_all_data_promises_its_libc_and_nothing_else_is_judged() -> None:
    policy = policy_of("cp311-cp311-manylinux_2_99_x86_64")
    assert policy.allows("GLIBC_2.99")
    assert policy.allows("GLIBC_2.100") is False
    assert policy.allows("GLIBCXX_3.4.99") is None


@pytest.mark.parametrize(
    ("platforms", "judged", "unjudged"),
    [
        ("manylinux_2_28_x86_64.manylinux2014_x86_64", "manylinux2014_x86_64", ()),
        ("linux_x86_64.manylinux_2_28_x86_64", "manylinux_2_28_x86_64", ()),
        (
            "manylinux2014_x86_64.musllinux_1_2_x86_64",
            "manylinux2014_x86_64",
            ("musllinux_1_2_x86_64",),
        ),
        ("linux_x86_64.musllinux_1_2_x86_64", "musllinux_1_2_x86_64", ("linux_x86_64",)),
        (
            "manylinux_2_17_x86_64.manylinux_2_28_aarch64",
            "manylinux_2_17_x86_64",
            ("manylinux_2_28_aarch64",),
        ),
        (
            "macosx_11_0_arm64.manylinux_2_17_x86_64.win_amd64",
            "manylinux_2_17_x86_64",
            ("macosx_11_0_arm64", "win_amd64"),
        ),
    ],
)
def test_systems_that_cannot_be_compared_are_left_unjudged(
    platforms: str, judged: str, unjudged: tuple[str, ...]
) -> None:
    found = target(f"py3-none-{platforms}")
    assert (found.name.partition(",")[0], found.unjudged) == (judged, unjudged)


def test_musllinux_has_musl() -> None:
    found = target("cp311-cp311-musllinux_1_2_aarch64")
    assert (found.libc, found.architectures) == ("musl", ("aarch64",))
    assert "libc.musl-aarch64.so.1" in found.libraries


def test_export_data_are_read_when_asked_for_and_the_projects_own_libraries_are_there_too() -> None:
    found = target("cp311-cp311-manylinux2014_x86_64", "libgomp.so.1")
    assert "libgomp.so.1" in found.libraries
    data = found.library_data
    assert "malloc" in data["libc.so.6"].symbols
    assert data.get("libunheard.so.1") is None


@pytest.mark.parametrize(
    ("tags", "version"),
    [
        ("cp312-cp312-manylinux2014_x86_64", (3, 12)),
        ("cp36-abi3-manylinux2014_x86_64", (3, 8)),
        ("cp311.py3-none-manylinux2014_x86_64", (3, 11)),
    ],
)
def test_the_oldest_python_of_the_tags_is_the_one(tags: str, version: tuple[int, int]) -> None:
    python = target(tags).interpreter
    assert python is not None
    assert python.version == version


def test_the_exports_of_every_python_are_at_hand() -> None:
    pythons = target("py3-none-manylinux2014_x86_64").interpreters
    older, newer = pythons[(3, 10), False], pythons[(3, 13), False]
    assert "_PyThreadState_UncheckedGet" in older.exports - newer.exports
    assert pythons[(3, 2), False].version == min(version for version, _ in pythons)
    assert "_Py_DecRefShared" in pythons[(3, 13), True].exports - newer.exports
    assert pythons.get(((3, 12), True)) is None


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        ("wasi_0_0_wasm32", "the loader of WASI is not simulated"),
        ("freebsd_13_amd64", "the loader of FreeBSD is not simulated"),
        ("manylinux_2_17_sparc", "no data on what manylinux_2_17_sparc promises"),
    ],
)
def test_a_system_whose_loader_is_not_simulated_is_not_inspected(platform: str, said: str) -> None:
    with pytest.raises(Unavailable, match=said):
        target(f"cp311-cp311-{platform}")


@pytest.mark.parametrize(
    ("platforms", "minimum", "architectures"),
    [
        ("macosx_10_9_x86_64", (10, 9), ("x86_64",)),
        ("macosx_11_0_arm64", (11, 0), ("aarch64",)),
        ("macosx_10_9_universal2", (10, 9), ("x86_64", "aarch64")),
        ("macosx_10_12_x86_64.macosx_11_0_arm64", (10, 12), ("x86_64", "aarch64")),
        ("macosx_10_6_intel", (10, 6), ("x86_64",)),
        ("macosx_10_15_arm64", (11, 0), ("aarch64",)),
    ],
)
def test_macos_is_the_oldest_that_the_tags_claim_on_all_their_architectures(
    platforms: str, minimum: tuple[int, int], architectures: tuple[str, ...]
) -> None:
    found = target(f"cp311-cp311-{platforms}")
    assert (found.system, found.minimum_os, found.architectures) == (
        "macos",
        minimum,
        architectures,
    )
    assert "/usr/lib/libSystem.B.dylib" in found.libraries
    assert "malloc" in found.library_data["/usr/lib/libSystem.B.dylib"].symbols
    assert found.interpreter is not None


def test_a_symbol_of_macos_has_the_version_that_brought_it() -> None:
    data = target("cp311-cp311-macosx_10_9_x86_64").library_data
    libsystem = data["/usr/lib/libSystem.B.dylib"]
    assert libsystem.symbols["utimensat"] == {"10.13"}
    assert libsystem.symbols["malloc"] == {""}
    assert data.get("/usr/lib/libodd.dylib") is None


def test_windows_has_its_own_libraries_its_api_sets_and_pythons() -> None:
    found = target("cp311-cp311-win_amd64.win_arm64", "Extra.DLL")
    assert (found.name, found.architectures) == ("win_amd64, CPython 3.11", ("x86_64",))
    assert found.unjudged == ("win_arm64",)
    assert {"kernel32.dll", "api-ms-win-crt-heap-l1-1", "extra.dll"} <= found.libraries
    assert found.interpreter is not None
    assert "PyLong_FromLong" in found.interpreter.libraries["python311.dll"]
    assert "Sleep" in found.library_data["kernel32.dll"].symbols
    assert found.library_data.get("nobody.dll") is None


def test_a_32_bit_python_has_no_runtime_of_its_own_for_64_bits() -> None:
    own = {"python311.dll", "python3.dll", "vcruntime140.dll"}
    for platform, more in (("win_amd64", {"vcruntime140_1.dll"}), ("win32", set())):
        python = target(f"cp311-cp311-{platform}").interpreter
        assert python is not None
        assert python.libraries.keys() == own | more


def claimed(*systems: SystemClaim, **claims: Any) -> TargetSystem:
    return target_for(Claims(systems=systems, **claims), frozenset())


def conda_linux(
    minimum: tuple[int, int] | None, libraries: tuple[str, ...] | None = None
) -> SystemClaim:
    return SystemClaim(
        name="linux-64",
        system="linux",
        libc="glibc" if minimum else "",
        minimum=minimum,
        architectures=("x86_64",),
        libraries=libraries,
    )


def test_of_the_systems_libraries_only_those_count_that_are_counted_on_or_required() -> None:
    claim = conda_linux((2, 17), libraries=("libc.so.6", "libm.so.6"))
    found = claimed(claim)
    assert found.libraries == {"libc.so.6", "libm.so.6"}
    assert found.policy is not None
    assert found.policy.allows("GLIBC_2.18") is False
    assert found.policy.allows("GLIBCXX_3.4.30") is None
    found = claimed(claim, provided=("libstdc++.so.6",))
    assert found.libraries == {"libc.so.6", "libm.so.6", "libstdc++.so.6"}
    assert "_ZdlPv" in found.library_data["libstdc++.so.6"].symbols
    assert "libstdc++.so.6" in set(found.library_data)


def test_a_package_that_is_no_wheel_gets_the_policy_of_the_glibc_that_it_claims() -> None:
    python = PythonClaim(name="python 3.11", implementation="cpython", version=(3, 11), abi="cp311")
    found = claimed(conda_linux((2, 17)), pythons=(python,))
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
    found = claimed(conda_linux(None))
    assert (found.policy, found.interpreter) == (None, None)
    assert "libmvec.so.1" in found.libraries


def test_a_claim_of_macos_without_a_version_promises_the_oldest_there_are_data_of() -> None:
    found = claimed(SystemClaim(name="osx-64", system="macos", architectures=("x86_64",)))
    assert (found.minimum_os, found.architectures) == ((10, 9), ("x86_64",))
    arm = claimed(SystemClaim(name="osx-arm64", system="macos", architectures=("aarch64",)))
    assert arm.minimum_os == (11, 0)


def test_a_claim_of_windows_is_judged_by_its_architecture() -> None:
    found = claimed(SystemClaim(name="win-64", system="windows", architectures=("x86_64",)))
    assert (found.name, found.system) == ("win-64", "windows")


def test_claims_of_no_system_have_no_loader_and_of_an_unknown_one_none_that_is_simulated() -> None:
    with pytest.raises(NotApplicable, match="no loader for no system"):
        claimed()
    with pytest.raises(NotApplicable, match="no loader for noarch"):
        claimed(SystemClaim(name="noarch", system="any"))
    with pytest.raises(NotApplicable, match="no loader for any"):
        target("cp311-cp311-any")
    with pytest.raises(Unavailable, match="the loader of that system is not simulated"):
        claimed(SystemClaim(name="zos-z"))


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
