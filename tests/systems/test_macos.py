"""The libraries and exports of macOS agree with known facts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from binary_checks.systems.libraries import (
    macos_exports,
    macos_libraries,
    macos_libraries_partly,
    macos_library_versions,
)

SYSTEM = "/usr/lib/libSystem.B.dylib"
CXX = "/usr/lib/libc++.1.dylib"
FRAMEWORKS = "/System/Library/Frameworks"
ABI = "/usr/lib/libc++abi.dylib"
CORE_FOUNDATION = f"{FRAMEWORKS}/CoreFoundation.framework/Versions/A/CoreFoundation"


def _since(library: str, version: tuple[int, int]) -> Mapping[str, tuple[int, int] | None]:
    """Return the first macOS with each symbol."""
    known = macos_exports(library, version)
    assert known is not None
    return {symbol: first for first, symbols in known.items() for symbol in symbols}


@pytest.mark.parametrize(
    "name",
    [
        SYSTEM,
        CXX,
        ABI,
        "/usr/lib/libobjc.A.dylib",
        "/usr/lib/libz.1.dylib",
        "/usr/lib/libiconv.2.dylib",
        "/usr/lib/libresolv.9.dylib",
        CORE_FOUNDATION,
        f"{FRAMEWORKS}/Foundation.framework/Versions/C/Foundation",
        f"{FRAMEWORKS}/AppKit.framework/Versions/C/AppKit",
        f"{FRAMEWORKS}/Accelerate.framework/Versions/A/Accelerate",
        f"{FRAMEWORKS}/AudioToolbox.framework/Versions/A/AudioToolbox",
        f"{FRAMEWORKS}/AVFoundation.framework/Versions/A/AVFoundation",
    ],
)
def test_what_wheels_need_is_on_every_macos(name: str) -> None:
    assert name in macos_libraries((10, 9))
    assert name in macos_libraries((11, 0))
    assert macos_library_versions(name) == ((10, 0), None)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("/usr/lib/libSystem.dylib", SYSTEM),
        ("/usr/lib/libm.dylib", SYSTEM),
        ("/usr/lib/libc++.dylib", CXX),
        ("/usr/lib/libz.dylib", "/usr/lib/libz.1.dylib"),
        ("/usr/lib/libsqlite3.0.dylib", "/usr/lib/libsqlite3.dylib"),
        (f"{FRAMEWORKS}/CoreFoundation.framework/CoreFoundation", CORE_FOUNDATION),
        (f"{FRAMEWORKS}/Metal.framework/Metal", f"{FRAMEWORKS}/Metal.framework/Versions/A/Metal"),
    ],
)
def test_a_link_to_a_library_is_the_same_library(spelling: str, name: str) -> None:
    assert spelling in macos_libraries((11, 0))
    assert macos_library_versions(spelling) == macos_library_versions(name)
    assert macos_exports(spelling, (11, 0)) == macos_exports(name, (11, 0))


def test_a_framework_s_current_version_is_the_same_library() -> None:
    name = f"{FRAMEWORKS}/CoreFoundation.framework/Versions/Current/CoreFoundation"
    assert macos_library_versions(name) == macos_library_versions(CORE_FOUNDATION)
    assert macos_library_versions(name.replace("Current", "Z")) is None


@pytest.mark.parametrize(
    ("framework", "since"),
    [
        ("Network", (10, 14)),
        ("UniformTypeIdentifiers", (11, 0)),
        ("ScreenCaptureKit", (12, 3)),
        ("Symbols", (14, 0)),
        ("SecurityUI", (15, 4)),
        ("GameSave", (26, 0)),
    ],
)
def test_a_framework_is_there_since_its_version(framework: str, since: tuple[int, int]) -> None:
    name = f"{FRAMEWORKS}/{framework}.framework/Versions/A/{framework}"
    assert macos_library_versions(name) == (since, None)
    assert name in macos_libraries(since)
    assert name not in macos_libraries((since[0], since[1] - 1))


def test_a_library_that_is_gone_is_on_no_list() -> None:
    name = f"{FRAMEWORKS}/Python.framework/Versions/2.7/Python"
    assert macos_library_versions(name) == ((10, 0), (12, 2))
    assert name not in macos_libraries((10, 9))


@pytest.mark.parametrize(
    ("name", "version", "which"),
    [
        (f"{FRAMEWORKS}/AppIntents.framework/AppIntents", (12, 0), "macOS 13 and later"),
        (
            f"{FRAMEWORKS}/ScreenCaptureKit.framework/Versions/A/ScreenCaptureKit",
            (11, 0),
            "macOS 12.3 and later",
        ),
        (f"{FRAMEWORKS}/Network.framework/Network", (10, 9), "macOS 10.14 and later"),
        (f"{FRAMEWORKS}/Python.framework/Versions/2.7/Python", (10, 9), "macOS up to 12.2"),
        (f"{FRAMEWORKS}/PubSub.framework/PubSub", (11, 0), "macOS up to 10.13"),
    ],
)
def test_what_not_every_promised_macos_has_is_said_with_which_have_it(
    name: str, version: tuple[int, int], which: str
) -> None:
    assert macos_libraries_partly(version)[name] == which
    assert name not in macos_libraries(version)


def test_a_library_is_not_partly_there_for_a_package_that_is_new_enough() -> None:
    name = f"{FRAMEWORKS}/AppIntents.framework/Versions/A/AppIntents"
    assert name in macos_libraries_partly((12, 3))
    assert name not in macos_libraries_partly((13, 0))
    assert not macos_libraries_partly((10, 9)).keys() & macos_libraries((10, 9))


@pytest.mark.parametrize(
    "name",
    [
        "/usr/lib/libnever.dylib",
        "/usr/lib/../lib/libz.1.dylib",
        "libz.1.dylib",
        "/usr/lib/libpython2.7.dylib",
        "",
    ],
)
def test_an_unknown_name_is_neither_there_nor_gone(name: str) -> None:
    assert macos_library_versions(name) is None
    assert macos_exports(name, (11, 0)) is None


def test_libsystem_exports_what_it_re_exports() -> None:
    symbols = _since(SYSTEM, (11, 0))
    assert symbols["malloc"] is None
    assert {"printf", "pthread_create", "dyld_stub_binder", "_tlv_bootstrap"} <= symbols.keys()
    assert {"fstat$INODE64", "dispatch_async", "exp", "_Block_copy"} <= symbols.keys()
    assert not {"__cxa_throw", "never_there"} & symbols.keys()


def test_libcxx_exports_its_abi_library_and_what_llvm_no_longer_lists() -> None:
    symbols = _since(CXX, (10, 9))
    assert {
        "__cxa_throw",
        "_Znwm",
        "_ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEED1Ev",
        "_ZNSt3__16locale2id6__initEv",  # LLVM took these two off its list
        "_ZTIN10__cxxabiv117__class_type_infoE",
    } <= symbols.keys()
    symbols = _since(ABI, (11, 0))  # what exceptions and new need
    assert {"__cxa_throw", "__gxx_personality_v0", "_ZTISt9exception", "_Znwm"} <= symbols.keys()
    assert "_ZNSt3__112system_errorD1Ev" not in symbols


@pytest.mark.parametrize(
    "name", ["/usr/lib/libz.1.dylib", "/usr/lib/libobjc.A.dylib", CORE_FOUNDATION]
)
def test_what_other_libraries_export_is_not_known(name: str) -> None:
    assert macos_exports(name, (11, 0)) is None


@pytest.mark.parametrize(
    ("library", "symbol", "since"),
    [
        (SYSTEM, "fdopendir", (10, 10)),
        (SYSTEM, "fdopendir$INODE64", (10, 10)),
        (SYSTEM, "clock_gettime", (10, 12)),
        (SYSTEM, "syslog", None),
        (SYSTEM, "_tlv_bootstrap", None),  # Apple's header says 10.10, but it works since 10.7
        (SYSTEM, "syslog$DARWIN_EXTSN", (10, 13)),
        (SYSTEM, "fopen", None),
        (SYSTEM, "utimensat", (10, 13)),
        (SYSTEM, "aligned_alloc", (10, 15)),
        (SYSTEM, "preadv", (11, 0)),
        (CXX, "_ZNSt3__14__fs10filesystem8__statusERKNS1_4pathEPNS_10error_codeE", (10, 15)),
        (CXX, "_ZNSt3__18to_charsEPcS0_d", (13, 3)),
        (CXX, "_ZNSt3__122__libcpp_verbose_abortEPKcz", (13, 3)),
        (CXX, "_ZNSt3__13pmr20get_default_resourceEv", (14, 0)),
        (CXX, "_ZTVNSt3__114basic_ifstreamIcNS_11char_traitsIcEEEE", (12, 0)),
        (ABI, "__cxa_uncaught_exceptions", (10, 12)),
    ],
)
def test_a_symbol_is_there_since_its_version(
    library: str, symbol: str, since: tuple[int, int] | None
) -> None:
    assert _since(library, (11, 0))[symbol] == since


def test_exports_are_unknown_beyond_the_newest_list() -> None:
    assert macos_exports(CXX, (14, 0)) is not None
    assert macos_exports(CXX, (15, 0)) is None
    assert macos_exports(ABI, (15, 0)) is None
    assert macos_exports(SYSTEM, (27, 0)) is not None
