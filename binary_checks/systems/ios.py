"""The iOS that a package promises to run on (PEP 730): a version, a processor, and an SDK."""

from __future__ import annotations

import re
from typing import Final

from binary_checks.model import Claims, SystemClaim, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of

SIMULATED = ("aarch64", "x86_64")
_OLDEST: Final = (13, 0)  # of Python 3.13, the first that supports iOS
_USR_LIB: Final = (
    *("libSystem.B", "libc++.1", "libc++abi", "libobjc.A", "libz.1", "libbz2.1.0", "libsqlite3"),
    *("libiconv.2", "libicucore.A", "libxml2.2", "libxslt.1", "libresolv.9", "libcompression"),
)
_FRAMEWORKS: Final = (
    *("Accelerate", "AVFoundation", "AudioToolbox", "CFNetwork", "CoreFoundation", "CoreGraphics"),
    *("CoreImage", "CoreLocation", "CoreML", "CoreMedia", "CoreText", "CoreVideo", "Foundation"),
    *("IOKit", "ImageIO", "Metal", "MetalKit", "MobileCoreServices", "OpenGLES", "Photos"),
    *("QuartzCore", "Security", "SystemConfiguration", "UIKit", "WebKit"),
)
LIBRARIES: Final = frozenset(
    {
        *(f"/usr/lib/{name}.dylib" for name in _USR_LIB),
        *(f"/System/Library/Frameworks/{name}.framework/{name}" for name in _FRAMEWORKS),
    }
)
"""Install names of libraries and frameworks that iOS has since version 13.

From Apple's documentation of frameworks (developer.apple.com/documentation), and from what
CPython's own build for iOS links. The list is not complete: whether iOS has another library below
/usr/lib or /System is unknown.
"""
_SDK = re.compile(r"ios_\d+_\d+_\w+?_(?P<sdk>iphoneos|iphonesimulator)")


def make_target(
    claims: Claims, extra_libraries: frozenset[str], dll_directories: tuple[str, ...] = ()
) -> TargetSystem:
    """Return the oldest iOS that is claimed, on devices before simulators."""
    del dll_directories
    systems = [each for each in claims.systems if each.system == "ios"]
    claim = min(systems, key=lambda each: (find_sdk(each) != "iphoneos", each.minimum or _OLDEST))
    same = [each for each in systems if find_sdk(each) == find_sdk(claim)]
    architectures = dict.fromkeys(name for each in same for name in each.architectures)
    python = interpreter_of(claims.pythons, "macos")
    return TargetSystem(
        name=", ".join(filter(None, (claim.name, format_interpreter(python)))),
        system="ios",
        libc="",
        architectures=tuple(name for name in architectures if name in SIMULATED),
        minimum_os=claim.minimum or _OLDEST,
        libraries=LIBRARIES.union(extra_libraries, claims.provided),
        interpreter=python,
        interpreters=Interpreters("macos"),
        unjudged=tuple(each.name for each in claims.systems if each not in same),
    )


def find_sdk(claim: SystemClaim) -> str:
    """Return the SDK that a tag names, ``iphoneos`` or ``iphonesimulator``; "" if it names none."""
    found = _SDK.fullmatch(claim.name)
    return found["sdk"] if found else ""
