"""What WHEEL and the ``.data`` folder have installers do, where these refuse or differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import Finding, Level, Problem, WheelLike

_VERSION = re.compile(r"(\d{1,9})(?:\.\d{1,9})*")
_LONGEST = 100  # characters of a value in a sentence
_SUPPORTED = 1  # the major version of the wheel format that installers know


@check
def unsupported_wheel_version(package: WheelLike) -> Iterator[Finding]:
    """The Wheel-Version is none, or is one that installers do not support.

    Why: pip and uv refuse a wheel of another major version than 1.
    Fix: build the wheel with a current build backend, and do not edit WHEEL by hand.
    Level: nobody can install the wheel.
    """
    stated = next((value for key, value in package.wheel if key.lower() == "wheel-version"), "")
    match = _VERSION.fullmatch(stated)
    if stated and (match is None or int(match[1]) > _SUPPORTED):
        yield Problem(
            path=f"{package.dist_info}/WHEEL",
            sentence=f"Wheel-Version is {stated[:_LONGEST]!r}; installers refuse all but 1.x",
        )


@check(level=Level.WARNING)
def root_is_purelib_is_wrong(package: WheelLike) -> Iterator[Finding]:
    """Root-Is-Purelib is neither true nor false, or false for a wheel without any native code.

    For extension modules in purelib there is ``extension-in-purelib``.

    Why: pip and uv take all but ``true`` for false and install into platlib; where that is another
    folder than purelib (some Linux systems), a wheel for any platform ends up in the wrong one.
    Fix: build the wheel with a build backend, which writes it.
    Level: it imports from either directory; only systems that tell them apart are affected.
    """
    stated = next((value for key, value in package.wheel if key.lower() == "root-is-purelib"), "")
    path = f"{package.dist_info}/WHEEL"
    if stated and stated.lower() not in {"true", "false"}:
        sentence = f"Root-Is-Purelib is {stated[:_LONGEST]!r}: installers take it for false"
        yield Problem(path=path, sentence=sentence)
    elif stated.lower() == "false" and package.platforms == ("any",) and not _is_native(package):
        yield Problem(
            path=path,
            sentence="Root-Is-Purelib is false, but the wheel is for any platform and has no "
            "native code",
        )


def _is_native(package: WheelLike) -> bool:
    return bool(package.objects or package.malformed or package.unread)


@check
def foreign_data_folder(package: WheelLike) -> Iterator[Finding]:
    """A ``.data`` folder has another name or version than the wheel.

    Why: pip installs from every top-level folder whose name ends in ``.data``; uv, and others that
    follow the specification, copy the folder to site-packages as it is, where nothing finds its
    modules and scripts.
    Fix: build the wheel with a build backend; after a change of its version unpack it and pack it
    with ``wheel pack``, or build it again.
    Level: with uv, users miss modules and scripts.
    """
    own = package.dist_info.removesuffix(".dist-info") + ".data"
    roots = {name.partition("/")[0] for name in _names(package)}
    for root in sorted(roots):
        if root.endswith(".data") and root != own:
            sentence = f"pip takes it for the wheel's {own}, other installers do not"
            yield Problem(path=root, sentence=sentence)


def _names(package: WheelLike) -> Iterator[str]:
    return (member.archive_name for member in package.members if "/" in member.archive_name)
