"""Wheel tags and pip options for a Python on another system than this host's."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms

from binary_checks.errors import ProfileError, Unavailable
from binary_checks.model import TargetSystem, WheelLike

_CPYTHON = re.compile(r"cp(?P<major>\d)(?P<minor>\d+)")
_OLDER_NAMES = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_FAMILIES = {"glibc": (2, "manylinux", 60), "musl": (1, "musllinux", 10)}
"""For each libc, its major version, the prefix of its tags, and a minor version greater than any
released one.
"""
_NEWEST_MACOS = 99
_NEWEST_PYTHON = 30
_WINDOWS = {"x86_64": "win_amd64", "i686": "win32", "aarch64": "win_arm64"}


@dataclass(frozen=True, kw_only=True, slots=True)
class ForeignPython:
    """A Python on another system, with the platform tags that it accepts."""

    version: tuple[int, int]
    free_threaded: bool
    platforms: tuple[str, ...]  # platform tags, best first

    @property
    def abi(self) -> str:
        """The ABI tag, for example ``cp313t``."""
        return "cp{}{}".format(*self.version) + "t" * self.free_threaded

    @property
    def name(self) -> str:
        """A name that is also valid as a folder's name: ``cp312-manylinux_2_28_x86_64``."""
        return f"{self.abi}-{self.platforms[0]}"

    @property
    def tags(self) -> tuple[Tag, ...]:
        """The wheel tags that this Python accepts, best first, as pip orders them for `options`."""
        interpreter = "cp{}{}".format(*self.version)
        own = cpython_tags(self.version, [self.abi], self.platforms)
        return (*own, *compatible_tags(self.version, interpreter, self.platforms))

    def options(self) -> tuple[str, ...]:
        """Return the options of ``pip download`` that select this Python."""
        platforms = (part for platform in self.platforms for part in ("--platform", platform))
        version = "{}.{}".format(*self.version)
        return (
            *("--implementation", "cp", "--python-version", version, "--abi", self.abi),
            *platforms,
        )


_ASKED = re.compile(r"(?:cp)?(?P<major>3)\.?(?P<minor>\d{1,2})(?P<threads>t?)-(?P<platform>\w+)")
_MANYLINUX = re.compile(
    r"manylinux(?:_2_(?P<minor>\d{1,2})|(?P<name>1|2010|2014))_(?P<machine>\w+)"
)
_MUSLLINUX = re.compile(r"musllinux_1_(?P<minor>\d{1,2})_(?P<machine>\w+)")
_MACOS = re.compile(r"macosx_(?P<major>\d{2})_(?P<minor>\d{1,2})_(?P<machine>arm64|x86_64)")
_LIBC_OF_NAMES = {"1": 5, "2010": 12, "2014": 17}


def read_target_name(text: str) -> ForeignPython:
    """Read the name of a Python on another system, such as ``cp312-win_amd64``.

    A Linux system is named by the newest tag that it accepts: ``manylinux_2_28_x86_64`` is a system
    with glibc 2.28, which accepts older tags, too. Raises ProfileError.
    """
    found = _ASKED.fullmatch(text)
    platforms = tuple(_expand_platform(found["platform"])) if found else ()
    if found is None or not platforms:
        raise ProfileError(
            f"{text}: not a target; name a Python and a platform, for example cp312-win_amd64, "
            "cp313t-manylinux_2_28_x86_64 or cp311-macosx_14_0_arm64"
        )
    version = (int(found["major"]), int(found["minor"]))
    return ForeignPython(version=version, free_threaded=bool(found["threads"]), platforms=platforms)


def _expand_platform(name: str) -> Iterator[str]:
    """Yield the platform tags that the named system accepts, best first.

    Yield nothing for an unknown name.
    """
    if name in _WINDOWS.values():
        yield name
    elif found := _MACOS.fullmatch(name):
        yield from mac_platforms((int(found["major"]), int(found["minor"])), found["machine"])
    elif found := _MANYLINUX.fullmatch(name):
        minor = int(found["minor"] or _LIBC_OF_NAMES[found["name"]])
        yield from list_linux_tags("glibc", range(minor, 4, -1), found["machine"])
    elif found := _MUSLLINUX.fullmatch(name):
        yield from list_linux_tags("musl", range(int(found["minor"]), -1, -1), found["machine"])


def list_linux_tags(libc: str, minors: Iterable[int], machine: str) -> Iterator[str]:
    """Yield the platform tags of these minor versions of a libc, and the tag of any Linux."""
    first, name, _ = _FAMILIES.get(libc, _FAMILIES["glibc"])
    for minor in minors:
        yield f"{name}_{first}_{minor}_{machine}"
        if name == "manylinux" and minor in _OLDER_NAMES:
            yield f"{_OLDER_NAMES[minor]}_{machine}"
    yield f"linux_{machine}"


def describe_python(wheel: WheelLike, target: TargetSystem) -> ForeignPython:
    """Return the oldest Python on the target system that a wheel's tags and Requires-Python allow.

    For a wheel that accepts any Python, use the version of the running interpreter. The platforms
    are the tags that the oldest promised system accepts, and after them the tags that only newer
    systems accept: a user may have a newer system, and a package's requirements often need one.
    Raises Unavailable if no CPython accepts the wheel.
    """
    version, free_threaded = find_oldest_python(wheel)
    return ForeignPython(
        version=version, free_threaded=free_threaded, platforms=tuple(_list_platforms(target))
    )


def find_oldest_python(wheel: WheelLike) -> tuple[tuple[int, int], bool]:
    """Return the oldest CPython that the tags and Requires-Python allow: (3, 13), free-threaded.

    Raises Unavailable if no CPython accepts the wheel.
    """
    exact: list[tuple[tuple[int, int], bool, bool]] = []
    for tag in wheel.tags:
        if match := _CPYTHON.fullmatch(tag.interpreter):
            version = (int(match["major"]), int(match["minor"]))
            bound = tag.abi.startswith("cp")
            exact.append((version, bound and tag.abi.endswith("t"), bound))
    if exact:
        version, free_threaded, bound = min(exact)
        return (version if bound else _find_allowed(wheel, version)), free_threaded
    if any(tag.interpreter.startswith("py") for tag in wheel.tags):
        return _find_allowed(wheel, sys.version_info[:2]), False
    raise Unavailable(
        "its tags name no CPython for which to fetch requirements: give the requirements "
        "with --binary-with"
    )


def _find_allowed(wheel: WheelLike, lowest: tuple[int, int]) -> tuple[int, int]:
    """Return the first version from ``lowest`` on that Requires-Python allows, else ``lowest``."""
    later = ((lowest[0], minor) for minor in range(lowest[1], _NEWEST_PYTHON))
    try:
        allowed = SpecifierSet(wheel.header("Requires-Python"))
        return next((v for v in later if allowed.contains("{}.{}.99".format(*v))), lowest)
    except ValueError:  # an invalid version, or one of thousands of digits
        return lowest


def _list_platforms(target: TargetSystem) -> Iterator[str]:
    architecture = target.architectures[0]
    if target.system == "windows":
        yield _WINDOWS[architecture]
    elif target.system == "macos":
        processor = "arm64" if architecture == "aarch64" else architecture
        oldest = target.minimum_os or (11, 0)
        yield "macosx_{}_{}_{}".format(*oldest, processor)
        yield f"macosx_{_NEWEST_MACOS}_0_{processor}"
    else:
        newest = _FAMILIES[target.libc][2]
        own = target.policy.minimum[1] if target.policy else newest
        minors = (*range(own, -1, -1), *range(own + 1, newest + 1))
        yield from list_linux_tags(target.libc, minors, architecture)
