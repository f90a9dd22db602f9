"""Each fault that macOS alone knows is found where it is, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from packaging.tags import mac_platforms

from binary_checks.checks import macos
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.tags import parse_mac_tag
from binary_checks.model import (
    Dependency,
    DispensableObject,
    Edge,
    Kind,
    Level,
    Linkage,
    MachOFile,
    Note,
    NotInspected,
    Problem,
    Wheel,
)
from fixtures.linking import needs
from fixtures.values import macho_file, only, say, wheel

ALONE = Linkage(target="macosx_11_0_arm64")


def _wheel(*platforms: str, **fields: Any) -> Wheel:
    return wheel(f"demo-1.0-cp311-cp311-{'.'.join(platforms)}.whl", **fields)


MACOS_WHEEL = _wheel("macosx_11_0_arm64")


def too_new(library: MachOFile, sentence: str) -> Problem:
    """What is said of code that an older macOS loads all the same."""
    return Problem(
        path=library.path,
        sentence=sentence,
        level=Level.WARNING,
        cause=f"code built for macOS {library.minimum_os}",
        consequence=True,
    )


PROGRAM: dict[str, Any] = {"path": "../../../bin/demo", "kind": Kind.EXECUTABLE}


@pytest.mark.parametrize(
    ("platforms", "minimum", "code", "fields", "promised"),
    [
        (["macosx_10_9_universal2"], "10.13", "x86_64", {}, "10.9"),
        (["macosx_10_9_universal2"], "14.0", "arm64", {"architecture": "aarch64"}, "11.0"),
        (["macosx_10_9_x86_64", "macosx_10_15_x86_64"], "10.15", "x86_64", {}, "10.9"),
        (["macosx_10_6_intel"], "10.12", "i386", {"architecture": "i686"}, "10.6"),
        (["macosx_12_0_x86_64"], "13.0", "x86_64", PROGRAM, "12.0"),
    ],
)
def test_code_for_a_newer_macos_than_the_tag_is_told(
    platforms: list[str], minimum: str, code: str, fields: dict[str, Any], promised: str
) -> None:
    library = macho_file(**{"minimum_os": minimum, **fields})
    tag = f"{platforms[0]} promises {promised}"
    told = too_new(library, f"its {code} code is built for macOS {minimum}, but {tag}")
    assert list(macos.minimum_os_above_tag(library, _wheel(*platforms))) == [told]


def test_code_that_an_older_dyld_refuses_is_an_error() -> None:
    library = macho_file(minimum_os="12.0", chained_fixups=True)
    assert list(macos.minimum_os_above_tag(library, _wheel("macosx_10_9_x86_64"))) == [
        Problem(
            path=library.path,
            sentence="its x86_64 code is built for macOS 12.0, but macosx_10_9_x86_64 promises "
            "10.9: dyld before macOS 10.15 refuses it (load command 0x80000034 is unknown)",
            cause="code built for macOS 12.0",
        )
    ]
    for tag, level in (("10_14", Level.ERROR), ("10_15", Level.WARNING)):
        found = macos.minimum_os_above_tag(library, _wheel(f"macosx_{tag}_x86_64"))
        assert only(Problem, found).level is level


@pytest.mark.parametrize(
    ("platforms", "fields"),
    [
        (["macosx_10_9_x86_64"], {"minimum_os": "10.9"}),
        (["macosx_11_0_x86_64"], {"minimum_os": "10.16"}),
        (["macosx_10_16_x86_64"], {"minimum_os": "11.0"}),
        (["macosx_10_9_universal2"], {"minimum_os": "11.0", "architecture": "aarch64"}),
        (["macosx_11_0_x86_64"], {"minimum_os": "11.0.1"}),
        (["macosx_11_0_arm64"], {"minimum_os": "13.0", "architecture": "x86_64"}),
        (["macosx_11_0_arm64"], {"minimum_os": "", "kind": Kind.RELOCATABLE}),
        (["macosx_11_0_x86_64"], {"minimum_os": "13.0", "kind": Kind.DEBUG}),
        (["macosx_11_0_x86_64"], {"minimum_os": "17.0", "platforms": ("ios",)}),
    ],
)
def test_code_for_what_the_tag_promises_is_quiet(
    platforms: list[str], fields: dict[str, Any]
) -> None:
    assert list(macos.minimum_os_above_tag(macho_file(**fields), _wheel(*platforms))) == []


def test_what_tags_cannot_say_since_macos_11_is_noted_unless_it_shall_count() -> None:
    library, package = macho_file(minimum_os="11.3"), _wheel("macosx_11_0_x86_64")
    told = "its x86_64 code is built for macOS 11.3, but macosx_11_0_x86_64 promises 11.0"
    assert list(macos.minimum_os_above_tag(library, package)) == [Note(sentence=told)]
    assert list(macos.minimum_os_above_tag(library, package, exact=True)) == [
        too_new(library, told)
    ]


@pytest.mark.parametrize(
    ("minimum", "tag", "gap"),
    [
        ("", "arm64", "its arm64 code does not say which macOS it is built for"),
        ("0.0", "arm64", "its arm64 code does not say which macOS it is built for"),
        ("11.0", "riscv64", "this check does not know what macosx_11_0_riscv64 promises"),
    ],
)
def test_code_or_a_tag_that_says_no_macos_is_not_passed(minimum: str, tag: str, gap: str) -> None:
    library = macho_file(minimum_os=minimum, architecture="aarch64")
    found = list(macos.minimum_os_above_tag(library, _wheel(f"macosx_11_0_{tag}")))
    assert found == [NotInspected(sentence=gap)]


@pytest.mark.parametrize("check", [macos.minimum_os_above_tag, macos.not_for_macos])
def test_wheels_for_other_systems_promise_no_macos(check: Any) -> None:
    with pytest.raises(NotApplicable, match="no platform tag is for macOS"):
        list(check(macho_file(minimum_os="26.0"), _wheel("any")))


@pytest.mark.parametrize(
    ("platforms", "found"),
    [
        (("iossimulator",), ["its arm64 code is for iossimulator: macOS does not load it"]),
        ((), []),
        (("macos",), []),
        (("macos", "maccatalyst"), []),
    ],
)
def test_code_for_another_of_apples_systems_is_told(
    platforms: tuple[str, ...], found: list[str]
) -> None:
    library = macho_file(platforms=platforms, architecture="aarch64")
    assert say(macos.not_for_macos(library, MACOS_WHEEL)) == found


@pytest.mark.parametrize("platform", ["macosx_11_1_x86_64", "macosx_10_9_arm64"])
def test_a_tag_that_no_installer_looks_for_is_told(platform: str) -> None:
    sentence = f"no installer looks for {platform}: pip does not know this macOS version"
    assert list(macos.dead_macos_tag(_wheel(platform))) == [Problem(sentence=sentence)]
    with_living = _wheel("macosx_11_1_x86_64", "macosx_10_9_x86_64")
    assert only(Note, macos.dead_macos_tag(with_living))


def test_tags_that_installers_look_for_are_quiet() -> None:
    looked_for = {
        platform
        for version, architecture in [((10, 15), "x86_64"), ((26, 1), "x86_64"), ((26, 1), "arm64")]
        for platform in mac_platforms(version, architecture)
        if parse_mac_tag(platform) is not None
    }
    assert "macosx_10_9_universal2" in looked_for
    assert "macosx_26_0_arm64" in looked_for
    assert list(macos.dead_macos_tag(_wheel(*looked_for))) == []
    with pytest.raises(NotApplicable):
        list(macos.dead_macos_tag(_wheel("manylinux_2_17_x86_64")))


@pytest.mark.parametrize("sdk", ["", "15.0", "26.5"])
def test_a_search_path_that_is_listed_twice_is_told(sdk: str) -> None:
    library = macho_file(rpaths=("@loader_path", "@loader_path/../lib", "@loader_path/"), sdk=sdk)
    assert say(macos.duplicate_rpath(library)) == [
        "has LC_RPATH @loader_path 2 times: macOS 15.4 and later refuse to load it"
    ]
    old = replace(library, sdk="14.9")
    sentence = "has LC_RPATH @loader_path 2 times, which dyld allows in files linked with SDK 14.9"
    assert list(macos.duplicate_rpath(old)) == [Note(sentence=sentence)]
    differing = replace(library, rpaths=("@loader_path", "@loader_path/.."))
    assert list(macos.duplicate_rpath(differing)) == []


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("/opt/homebrew/opt/unixodbc/lib/libodbc.2.dylib", "only where Homebrew installed it"),
        ("/usr/local/opt/x/libx.dylib", "only where Homebrew installed it"),
        ("/usr/local/Cellar/x/libx.dylib", "only where Homebrew installed it"),
        ("/opt/local/lib/libx.dylib", "only where MacPorts installed it"),
        ("/Library/Frameworks/Python.framework/Python", "only python.org's installer puts there"),
        ("/Library/Frameworks/x.framework/x", "only where that framework is installed"),
        ("/Applications/x.app/x.dylib", "only where that application is installed"),
        ("/usr/local/lib/libmimerapi.dylib", "where the file was built"),
        ("/DLC/demo/libx.dylib", "a name that delocate makes up"),
    ],
)
def test_a_need_of_what_is_no_part_of_macos_is_told(name: str, place: str) -> None:
    needer = macho_file(needed=(Dependency(name=name),))
    problem = only(Problem, macos.needed_outside_system(needer, ALONE))
    assert problem.sentence.startswith(f"needs {name}, ")
    assert place in problem.sentence
    assert problem.cause == f"library {name.rpartition('/')[2]}"
    weak = macho_file(needed=(Dependency(name=name, weak=True),))
    assert [type(found) for found in macos.needed_outside_system(weak, ALONE)] == [Note]


@pytest.mark.parametrize("weak", [False, True])
def test_a_library_of_macos_that_ends_the_process_is_told(weak: bool) -> None:
    name = "/usr/lib/libcrypto.dylib"
    library = macho_file(
        needed=(Dependency(name=name, weak=weak), Dependency(name="/usr/lib/libz.1.dylib"))
    )
    problem = only(Problem, macos.needed_outside_system(library, ALONE))
    assert problem.level is Level.ERROR
    assert problem.sentence.startswith(f"needs {name}, which ends the process since macOS 10.15")
    assert list(macos.needed_outside_system(library, ALONE, allowed=(name,))) == []
    versioned = macho_file(needed=needs("/usr/lib/libcrypto.35.dylib"))
    assert list(macos.needed_outside_system(versioned, ALONE)) == []


def test_a_plugin_that_no_import_reaches_may_need_what_its_users_have() -> None:
    plugin = macho_file("demo/plugin.dylib", needed=needs("/opt/homebrew/lib/libpq.5.dylib"))
    spare = DispensableObject(path=plugin.path, reason="no import of the package reaches it")
    linkage = replace(ALONE, dispensable=(spare,))
    problem = only(Problem, macos.needed_outside_system(plugin, linkage))
    assert problem.level is Level.WARNING
    assert problem.sentence.endswith("; no import of the package reaches it")


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("/Library/Frameworks/R.framework/Versions/4.3/Resources/lib/libR.dylib", Level.WARNING),
        ("/Library/Frameworks/Demo.framework/Versions/A/Demo", Level.ERROR),
        ("/opt/homebrew/lib/R/lib/libR.dylib", Level.ERROR),
        ("/usr/local/lib/libR.dylib", Level.ERROR),
    ],
)
def test_what_a_vendors_installer_puts_there_is_the_users_to_install(
    name: str, level: Level
) -> None:
    module = macho_file("demo/_native.abi3.so", needed=needs(name))
    edge = Edge(path=module.path, architecture=module.architecture, needed=name)
    problem = only(Problem, macos.needed_outside_system(module, replace(ALONE, edges=(edge,))))
    assert problem.level is level
    assert problem.sentence.endswith("; users install R themselves") is (level is Level.WARNING)


def test_needs_within_macos_and_the_package_are_quiet() -> None:
    system = ("/usr/lib/libc++.1.dylib", "/System/Library/Frameworks/AppKit.framework/AppKit")
    names = (*system, "@rpath/libx.dylib", "@loader_path/.dylibs/libx.dylib", "/opt/own/liby.dylib")
    library = macho_file(needed=tuple(Dependency(name=name) for name in names))
    assert list(macos.needed_outside_system(library, ALONE, allowed=("/opt/own/liby.dylib",))) == []


def test_arm64_code_without_a_signature_is_told() -> None:
    library = macho_file(architecture="aarch64")
    (problem,) = macos.unsigned_arm64_code(library, MACOS_WHEEL)
    sentence = "its arm64 code is not signed: macOS refuses to load it"
    assert problem == Problem(path=library.path, sentence=sentence)
    assert problem.command == "codesign --force --sign - {path}"
    ios = replace(library, platforms=("ios",))  # it is signed in its app, as pillow's
    with pytest.raises(NotApplicable, match="nothing says that it is for macOS"):
        list(macos.unsigned_arm64_code(ios, _wheel("ios_13_0_arm64_iphoneos")))


@pytest.mark.parametrize(
    "fields",
    [
        {"architecture": "aarch64", "signed": True},
        {"architecture": "x86_64"},
        {"architecture": "aarch64", "kind": Kind.RELOCATABLE},
    ],
)
def test_signed_code_and_code_for_intel_are_quiet(fields: dict[str, Any]) -> None:
    assert list(macos.unsigned_arm64_code(macho_file(**fields), MACOS_WHEEL)) == []


def test_a_signature_that_does_not_fit_is_told_for_every_architecture() -> None:
    fault = "the code signature's SHA-256 of 1 of 3 pages is wrong, first at byte 0x1000"
    for architecture, spelling in (("aarch64", "arm64"), ("x86_64", "x86_64")):
        library = macho_file(architecture=architecture, signed=True, signature_faults=(fault,))
        told = Problem(path=library.path, sentence=f"{spelling}: {fault}")
        assert list(macos.broken_code_signature(library)) == [told]
    assert list(macos.broken_code_signature(macho_file(signed=True))) == []
