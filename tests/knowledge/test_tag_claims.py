"""Platform tags claim what packaging and the PEPs say of them."""

from __future__ import annotations

import pytest
from packaging.tags import mac_platforms

from binary_checks.knowledge.tags import parse_mac_tag, read_system


@pytest.mark.parametrize(
    ("tag", "libc", "minimum"),
    [
        ("manylinux1_x86_64", "glibc", (2, 5)),  # PEP 513
        ("manylinux2010_x86_64", "glibc", (2, 12)),  # PEP 571
        ("manylinux2014_x86_64", "glibc", (2, 17)),  # PEP 599
        ("manylinux_2_28_x86_64", "glibc", (2, 28)),
        ("musllinux_1_2_x86_64", "musl", (1, 2)),
        ("manylinux2015_x86_64", "glibc", None),
        ("musllinux2014_x86_64", "musl", None),
        ("linux_x86_64", "", None),
    ],
)
def test_a_tag_of_linux(tag: str, libc: str, minimum: tuple[int, int] | None) -> None:
    claim = read_system(tag)
    assert (claim.system, claim.libc, claim.minimum) == ("linux", libc, minimum)
    assert claim.architectures == ("x86_64",)


@pytest.mark.parametrize("version", [(10, 9), (10, 15), (10, 16), (11, 0), (14, 0), (26, 0)])
@pytest.mark.parametrize(("machine", "ours"), [("x86_64", "x86_64"), ("arm64", "aarch64")])
def test_pip_looks_for_the_tags_that_packaging_lists(
    version: tuple[int, int], machine: str, ours: str
) -> None:
    for platform in mac_platforms(version, machine):
        tag = parse_mac_tag(platform)
        assert tag is not None
        assert tag.is_looked_for or (machine == "arm64" and version < (11, 0))
        assert ours in tag.architectures or version < (11, 0)
        assert tag.version <= version


@pytest.mark.parametrize("platform", ["macosx_11_1_x86_64", "macosx_10_17_x86_64"])
def test_pip_looks_for_no_other_version(platform: str) -> None:
    tag = parse_mac_tag(platform)
    assert tag is not None
    assert not tag.is_looked_for


@pytest.mark.parametrize("platform", ["macosx_11_0", "macosx_11_0_mips", "osx_11_0_arm64"])
def test_other_texts_are_no_tags_of_macos(platform: str) -> None:
    assert parse_mac_tag(platform) is None
