"""A platform tag selects a policy, which compares versions as numbers."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from importlib import metadata, resources

import pytest

from binary_checks.model import Policy
from binary_checks.systems import policies, policy_for
from binary_checks.systems.libraries import read_committed


def named(tag: str) -> Policy:
    policy = policy_for(tag)
    assert policy is not None
    return policy


@pytest.mark.parametrize(
    ("node", "allowed"),
    [
        ("GLIBC_2.2.5", True),  # sorted as text, it comes after 2.14
        ("GLIBC_2.14", True),
        ("GLIBC_2.9", True),  # not listed, but older than a listed version
        ("GLIBC_2.14.1", False),
        ("GLIBC_2.15", False),
        ("GLIBC_2.100", False),
        ("GLIBC_3", False),
        ("GLIBC_PRIVATE", False),
        ("GLIBC_ABI_DT_RELR", False),
        ("CXXABI_TM_1", True),
        ("CXXABI_FLOAT128", False),
        ("CXXABI_1.3.3", True),
        ("CXXABI_1.3.10", False),
        ("LIBATOMIC_1.0", False),  # covered by the policy, without listed versions
        ("OPENBLAS_0.3", None),
        ("libfoo", None),
        ("GLIBC_", False),
        ("GLIBC_" + "9" * 5000, False),  # more digits than Python converts to a number
        ("GLIBC_٢.٢", False),  # digits, but none that a linker writes
        ("", None),
    ],
)
def test_a_version_is_allowed_by_number_and_a_name_by_membership(
    node: str, allowed: bool | None
) -> None:
    versions = {
        "GLIBC": frozenset({"2.2.5", "2.3", "2.14"}),
        "CXXABI": frozenset({"1.3", "1.3.9", "TM_1"}),
        "LIBATOMIC": frozenset[str](),
    }
    made = replace(named("manylinux_2_17_x86_64"), minimum=(2, 17), versions=versions)
    assert made.allows(node) is allowed


def test_the_private_version_is_never_allowed_even_where_glibc_is_not_governed() -> None:
    assert named("musllinux_1_2_x86_64").allows("GLIBC_PRIVATE") is False
    assert named("musllinux_1_2_x86_64").allows("GLIBC_2.2.5") is None


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("manylinux1_i686", "manylinux_2_5"),
        ("manylinux2010_x86_64", "manylinux_2_12"),
        ("manylinux2014_s390x", "manylinux_2_17"),
    ],
)
def test_an_old_spelling_names_the_same_policy(alias: str, name: str) -> None:
    architecture = alias.split("_", 1)[1]
    assert named(alias) is named(f"{name}_{architecture}")
    assert named(alias).name == name
    assert alias == f"{named(alias).aliases[0]}_{architecture}"


@pytest.mark.parametrize(
    "tag",
    [
        "linux_x86_64",
        "any",
        "",
        "manylinux1_aarch64",  # PEP 513 knows x86_64 and i686 only
        "manylinux_2_29_x86_64",
        "manylinux_2_28",
        "musllinux_1_3_x86_64",
        "macosx_11_0_arm64",
        "win_amd64",
    ],
)
def test_a_tag_without_a_known_policy_has_none(tag: str) -> None:
    assert policy_for(tag) is None


def test_policies_come_lowest_first_and_each_allows_what_those_before_it_allow() -> None:
    assert policies("bionic", "aarch64") == policies("glibc", "m68k") == ()
    found = policies("glibc", "x86_64")
    assert [found[0].name, found[-1].minimum >= (2, 41)] == ["manylinux_2_5", True]
    assert [p.minimum for p in found] == sorted(p.minimum for p in found)
    for lower, higher in itertools.pairwise(found):
        assert lower.libraries <= higher.libraries
        for prefix, versions in lower.versions.items():
            assert all(higher.allows(f"{prefix}_{version}") for version in versions)


def test_manylinux2014_on_aarch64_ends_at_glibc_2_18_and_gcc_4_7() -> None:
    found = named("manylinux2014_aarch64")
    assert found.versions["GLIBC"] == {"2.0", "2.17", "2.18"}
    assert found.allows("GLIBC_2.18") is True
    assert found.allows("GLIBC_2.19") is False
    assert found.allows("GCC_4.8.0") is False
    assert named("manylinux2014_x86_64").allows("GLIBC_2.18") is False
    assert named("manylinux2014_x86_64").allows("GCC_4.8.0") is True


def test_the_marker_of_packed_relocations_is_allowed_from_2_36_on() -> None:
    assert named("manylinux_2_35_x86_64").allows("GLIBC_ABI_DT_RELR") is False
    assert named("manylinux_2_36_x86_64").allows("GLIBC_ABI_DT_RELR") is True


def test_the_loader_is_among_the_libraries_a_package_may_need() -> None:
    assert "ld-linux-x86-64.so.2" in named("manylinux_2_28_x86_64").libraries
    assert "ld-linux-aarch64.so.1" in named("manylinux_2_28_aarch64").libraries
    assert named("musllinux_1_2_armv7l").libraries == {
        "libc.musl-armv7.so.1",
        "ld-musl-armhf.so.1",
        "libz.so.1",
    }


def test_symbols_that_only_some_builds_of_a_library_have_are_forbidden() -> None:
    found = named("manylinux2014_x86_64").forbidden_symbols
    assert "__cxa_thread_atexit_impl" in found["libc.so.6"]
    assert "inflate_table" in found["libz.so.1"]
    assert "libc.so.6" not in named("manylinux_2_28_x86_64").forbidden_symbols


@pytest.mark.parametrize(
    ("file", "libc"), [("manylinux-policy.json", "glibc"), ("musllinux-policy.json", "musl")]
)
def test_the_policies_are_those_of_auditwheel(file: str, libc: str) -> None:
    pytest.importorskip("auditwheel")
    text = resources.files("auditwheel.policy").joinpath(file).read_text(encoding="utf-8")
    source = {row["name"]: row for row in json.loads(text) if row["name"] != "linux"}
    pairs = {(name, arch) for name, row in source.items() for arch in row["symbol_versions"]}
    ours = {
        (p.name, p.architecture): p for arch in {a for _, a in pairs} for p in policies(libc, arch)
    }
    assert read_committed("policies.json")["source"].startswith("auditwheel ")
    assert set(ours) == pairs, f"drift from auditwheel {metadata.version('auditwheel')}"
    for (name, architecture), found in ours.items():
        row = source[name]
        assert found.aliases == tuple(row["aliases"])
        assert found.versions == {
            prefix: set(listed) for prefix, listed in row["symbol_versions"][architecture].items()
        }
        assert found.forbidden_symbols == {k: set(v) for k, v in row["blacklist"].items()}
        assert set(row["lib_whitelist"]) - {"libc.so"} <= found.libraries
