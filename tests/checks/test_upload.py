"""What PyPI refuses, before it is uploaded."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.checks.upload import (
    classifier_refused,
    local_version_refused,
    platform_tag_refused,
    upload_too_large,
    variant_label_undecided,
)
from binary_checks.errors import NotApplicable
from binary_checks.gather.known_classifiers import list_classifiers
from binary_checks.model import Finding, KnownClassifiers, Level, NotInspected, Problem, Wheel
from binary_checks.profile import load_profile
from fixtures.linking import library
from fixtures.values import member, only, wheel

TAGS = "cp311-cp311-manylinux_2_28_x86_64.whl"
KNOWN = KnownClassifiers(
    accepted=frozenset({"Topic :: Software Development"}),
    deprecated={"Language :: Ukranian": ("Language :: Ukrainian",)},
)
OLD = "the classifier Language :: Ukranian"


def read(name: str = f"demo-1.0-{TAGS}", *headers: tuple[str, str], **fields: object) -> Wheel:
    metadata = (("Metadata-Version", "2.4"), ("Name", "demo"), ("Version", "1.0"), *headers)
    return wheel(name, metadata=metadata, **fields)


def sentences(findings: Iterable[Finding]) -> list[str]:
    return [each.sentence for each in findings if isinstance(each, Problem)]


def test_a_version_with_a_label_and_a_requirement_of_one_are_refused() -> None:
    requires = (("Requires-Dist", "torch==2.15.0+cu126"), ("Requires-Dist", "numpy>=2"))
    found = sentences(local_version_refused(read(f"demo-1.0+cu126-{TAGS}", *requires)))
    assert found == [
        "its version has the local label cu126",
        "requires torch==2.15.0+cu126, a local version, which no index for everybody has",
    ]
    assert sentences(local_version_refused(read(f"demo-1.0-{TAGS}", requires[1]))) == []


@pytest.mark.parametrize(
    "platform",
    [
        *("any", "win_arm64", "manylinux_2_28_x86_64", "manylinux2014_aarch64", "linux_armv7l"),
        *("manylinux_2_17_x86_64.manylinux2014_x86_64", "musllinux_1_2_riscv64"),
        *("macosx_10_9_x86_64", "macosx_11_0_arm64", "ios_13_0_arm64_iphoneos"),
        *("android_24_arm64_v8a", "pyemscripten_2026_0_wasm32"),
    ],
)
def test_a_platform_that_pypi_accepts(platform: str) -> None:
    name = f"demo-1.0-cp311-cp311-{platform}.whl"
    assert sentences(platform_tag_refused(read(name), everything=True)) == []


@pytest.mark.parametrize(
    "platform", ["linux_x86_64", "macosx_11_3_arm64", "macosx_16_0_arm64", "freebsd_14_0_amd64"]
)
def test_a_platform_that_pypi_refuses(platform: str) -> None:
    name = f"demo-1.0-cp311-cp311-{platform}.whl"
    why = ", which names no C library" if platform == "linux_x86_64" else ""
    told = f"PyPI does not accept the platform tag {platform}{why}"
    assert sentences(platform_tag_refused(read(name), everything=True)) == [told]


def test_by_default_only_a_release_for_plain_linux_is_judged() -> None:
    name = "demo-1.0-cp311-cp311-linux_x86_64.linux_armv7l.whl"
    assert only(Problem, platform_tag_refused(read(name))).command == "auditwheel repair {package}"
    for version, tags in (
        ("1.0+cpu", "cp311-cp311-linux_x86_64"),
        ("1.0.dev3", "cp311-cp311-linux_x86_64"),
        ("1.0", "cp311-cp311-macosx_11_3_arm64"),
    ):
        with pytest.raises(NotApplicable):
            list(platform_tag_refused(read(f"demo-{version}-{tags}.whl")))
    for_tests = wheel(name, objects=(library("demo/a.so", "libasan.so.8"),))
    assert only(Problem, platform_tag_refused(for_tests)).command == ""  # no case for a repair


@pytest.mark.parametrize(
    ("classifier", "told"),
    [
        ("Topic :: Software Development", []),
        ("Topic :: Nothing", ["PyPI does not know the classifier Topic :: Nothing"]),
        ("Language :: Ukranian", [f"PyPI no longer accepts {OLD}; it has Language :: Ukrainian"]),
        ("Private :: x", ["the classifier Private :: x keeps PyPI from accepting the package"]),
    ],
)
def test_a_classifier_is_looked_up(classifier: str, told: list[str]) -> None:
    package = read(f"demo-1.0-{TAGS}", ("Classifier", classifier))
    assert sentences(classifier_refused(package, KNOWN, everything=True)) == told
    unknown = told if classifier == "Topic :: Nothing" else []
    assert sentences(classifier_refused(package, KNOWN)) == unknown


def test_a_version_of_something_known_may_be_newer_than_the_list() -> None:
    known = KnownClassifiers(
        source="trove-classifiers 1", accepted=frozenset({"Python :: 3.14", "Status :: 5 - Stable"})
    )
    newer = read(f"demo-1.0-{TAGS}", ("Classifier", "Python :: 3.15"))
    sentence = "the classifier Python :: 3.15 may be newer than the list of trove-classifiers 1"
    assert [
        each.sentence for each in classifier_refused(newer, known) if isinstance(each, NotInspected)
    ] == [sentence]
    assert len(sentences(classifier_refused(newer, known, everything=True))) == 1
    for wrong in ("Python :: 4th", "Status :: 5 - Stabel", "Django :: 5.0"):
        package = read(f"demo-1.0-{TAGS}", ("Classifier", wrong))
        assert len(sentences(classifier_refused(package, known))) == 1


def test_the_classifiers_come_from_the_library_or_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    known = list_classifiers()
    monkeypatch.setitem(sys.modules, "trove_classifiers", None)
    copied = list_classifiers()
    assert copied.accepted.isdisjoint(copied.deprecated)
    assert "Framework :: Django CMS :: 4.2" in copied.deprecated
    assert "Programming Language :: Python :: 3" in known.accepted
    assert "Natural Language :: Ukranian" in known.deprecated


def test_a_file_that_is_too_large_and_one_that_is_compressed_too_much() -> None:
    package = read(size=104_857_601)
    assert sentences(upload_too_large(package)) == ["is 104857601 bytes; PyPI accepts 104857600"]
    assert sentences(upload_too_large(package, limit=1 << 30)) == []
    assert sentences(upload_too_large(package, limits={"demo-*": 1 << 30})) == []
    bomb = read(size=1 << 20, members=(member(size=1 << 27),))
    assert sentences(upload_too_large(bomb)) == [
        "its members have 134217731 bytes, more than 50 times as many as the file, which PyPI "
        "takes for a zip bomb"
    ]
    assert sentences(upload_too_large(read(size=1 << 10, members=(member(size=1 << 20),)))) == []


def test_the_shipped_profile_turns_them_on() -> None:
    profile = load_profile("pypi")
    checks = (classifier_refused, local_version_refused, platform_tag_refused, upload_too_large)
    assert all(map(profile.selects, checks))
    assert profile.level_of("metadata-field-refused", "", Level.WARNING) is Level.ERROR
    assert Path(profile.source).name == "pypi"


def test_a_wheel_variant_is_refused_and_said_to_be_undecided() -> None:
    package = replace(read(), variant_label="cu128")
    told = "PyPI does not accept the label cu128 of a wheel variant in a file name"
    assert sentences(platform_tag_refused(package, everything=True)) == [told]
    gap = only(NotInspected, variant_label_undecided(package)).sentence
    assert "the label cu128 of a wheel variant: which systems it is for is undecided" in gap
    with pytest.raises(NotApplicable):
        list(variant_label_undecided(wheel()))
