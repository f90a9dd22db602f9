"""The iOS that a package promises to run on (PEP 730): a version, a processor, and an SDK."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from binary_checks.model import Claims, SystemClaim, TargetSystem
from binary_checks.systems.interpreters import Interpreters, format_interpreter, interpreter_of
from binary_checks.systems.libraries import read_committed

SIMULATED = ("aarch64", "x86_64")
_OLDEST: Final = (13, 0)  # of Python 3.13, the first that supports iOS
_SDK = re.compile(r"ios_\d+_\d+_\w+?_(?P<sdk>iphoneos|iphonesimulator)")


def make_target(claims: Claims, extra_libraries: frozenset[str]) -> TargetSystem:
    """Return the oldest iOS that is claimed, on devices before simulators.

    Its libraries are those of Apple's SDKs below /usr/lib and /System/Library/Frameworks; whether
    iOS has another library there is unknown.
    """
    systems = [each for each in claims.systems if each.system == "ios"]
    claim = min(systems, key=lambda each: (find_sdk(each) != "iphoneos", each.minimum or _OLDEST))
    same = [each for each in systems if find_sdk(each) == find_sdk(claim)]
    architectures = dict.fromkeys(name for each in same for name in each.architectures)
    python = interpreter_of(claims.pythons, "macos")
    minimum = claim.minimum or _OLDEST
    since: Mapping[str, int] = read_committed("ios.json.gz")["since"]
    return TargetSystem(
        name=", ".join(filter(None, (claim.name, format_interpreter(python)))),
        system="ios",
        libc="",
        architectures=tuple(name for name in architectures if name in SIMULATED),
        minimum_os=minimum,
        libraries=extra_libraries.union(
            claims.provided, (name for name, first in since.items() if (first, 0) <= minimum)
        ),
        partly={
            name: f"iOS {first} and later" for name, first in since.items() if (first, 0) > minimum
        },
        interpreter=python,
        interpreters=Interpreters("macos"),
        unjudged=tuple(each.name for each in claims.systems if each not in same),
    )


def find_sdk(claim: SystemClaim) -> str:
    """Return the SDK that a tag names, ``iphoneos`` or ``iphonesimulator``; "" if it names none."""
    found = _SDK.fullmatch(claim.name)
    return found["sdk"] if found else ""
