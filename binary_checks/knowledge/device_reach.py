"""Knows for which GPUs device code is good: where it runs, and where it can be linked with other.

nvlink 13.5 takes relocatable code of an older GPU of the same major version, and code without a
suffix beside code with one; it refuses ``sm_90a`` where ``sm_90`` is asked for.
"""

from __future__ import annotations

import re

from binary_checks.model import DeviceKind, DeviceTarget

_NAME = re.compile(r"sm_(\d+)(\d)([af?]?)")


def serves(code: DeviceTarget, wanted: DeviceTarget) -> bool:
    """Whether code for one target is of use wherever another target is meant.

    PTX without a suffix means its own GPU and all later ones, which only such PTX serves.
    """
    if code.kind not in (DeviceKind.SASS, DeviceKind.PTX):
        return False
    one, other = _NAME.fullmatch(code.architecture), _NAME.fullmatch(wanted.architecture)
    if one is None or other is None:
        return code == wanted
    own, asked = (int(one[1]), int(one[2])), (int(other[1]), int(other[2]))
    plain_ptx = code.kind is DeviceKind.PTX and not one[3]
    if plain_ptx or (wanted.kind is DeviceKind.PTX and not other[3]):
        return plain_ptx and own <= asked
    if one[3] == "a":
        return own == asked and other[3] in ("a", "?")
    return own[0] == asked[0] and own[1] <= asked[1]
