"""What iOS requires of libraries."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.errors import NotApplicable
from binary_checks.knowledge.tags import format_architecture, read_version
from binary_checks.model import (
    Finding,
    Kind,
    MachOFile,
    NotInspected,
    Problem,
    TargetSystem,
)

_LOADED = (Kind.SHARED, Kind.EXECUTABLE)
_FIRST_SIMULATOR_ON_ARM = (14, 0)
"""Xcode 12 brought the first simulators for Macs with Apple's processors: no older one exists."""


@check
def not_for_ios(library: MachOFile, target: TargetSystem) -> Iterator[Finding]:
    """An object in a wheel for iOS is built for another of Apple's platforms.

    Devices and simulators are different platforms, even on the same processor.

    Why: dyld refuses it: "mach-o file, but is an incompatible platform".
    Fix: build with the SDK of the tag: ``xcrun --sdk iphoneos`` for ``…_iphoneos``,
    ``xcrun --sdk iphonesimulator`` for ``…_iphonesimulator``.
    Level: no user can load the file.
    """
    wanted = _find_platform(target)
    if library.kind not in _LOADED or wanted in library.platforms:
        return
    if wanted == "iossimulator" and library.architecture == "x86_64":
        # LC_VERSION_MIN_IPHONEOS does not name the simulator; no device has an x86_64.
        wanted = "ios"
    if not library.platforms:
        yield NotInspected(sentence="it does not say which of Apple's platforms it is built for")
    elif wanted not in library.platforms:
        tag = target.name.partition(",")[0]
        code = f"its {format_architecture(library.architecture)} code"
        yield Problem(
            path=library.path,
            sentence=f"{code} is for {', '.join(library.platforms)}, but the tag is {tag}",
            facts=(library.architecture,),
        )


@check
def minimum_ios_above_tag(library: MachOFile, target: TargetSystem) -> Iterator[Finding]:
    """An object is built for a newer iOS than the wheel's platform tag promises.

    Why: Xcode and the App Store refuse an app whose libraries need a newer iOS than the app, and
    dyld on the older system fails with "Symbol not found".
    Fix: build with ``IPHONEOS_DEPLOYMENT_TARGET`` as low as the tag, or raise the tag.
    Level: apps for the promised iOS cannot ship the package.
    """
    platform = _find_platform(target)
    minimum = read_version(library.minimum_os or "0.0")
    promised = target.minimum_os or minimum
    if platform == "iossimulator" and library.architecture == "aarch64":
        promised = max(promised, _FIRST_SIMULATOR_ON_ARM)
    if library.kind in _LOADED and minimum > promised:
        yield Problem(
            path=library.path,
            sentence=f"is built for iOS {library.minimum_os}, but "
            f"{target.name.partition(',')[0]} promises {'{}.{}'.format(*promised)}",
            facts=(library.architecture,),
        )


def _find_platform(target: TargetSystem) -> str:
    """Return the platform of the tag, as objects state it. Raises NotApplicable without one."""
    if target.system != "ios":
        raise NotApplicable("no tag is for iOS")
    tag = target.name.partition(",")[0]
    return "iossimulator" if tag.endswith("_iphonesimulator") else "ios"
