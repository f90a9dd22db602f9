"""Looks at a few pieces of an object's device code for the toolkit that made them.

A build has one toolkit, or two with a vendor's archive: to ask all pieces would tell no more.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from binary_checks.errors import BinaryChecksError, BrokenDataError, NotInstalled
from binary_checks.knowledge.device_containers import Carrier
from binary_checks.model import DeviceKind
from binary_checks.model.device_toolkits import ToolkitSample
from binary_checks.objects.device.cubins import read_toolkit
from binary_checks.objects.device.entries import Allowance
from binary_checks.objects.device.ptx import read_ptx

_CHOSEN: Final = 16  # of each kind in one object
_KINDS: Final = (DeviceKind.SASS, DeviceKind.PTX)


class ToolkitSampling:
    """Chooses among the pieces of one object, spread over all of it, and counts what they state."""

    def __init__(self, item: Carrier, allowance: Allowance) -> None:
        self._allowance = allowance
        self._path, self._total = item.path, _count(item)
        self._strides = {kind: -(-_count(item, kind) // _CHOSEN) or 1 for kind in _KINDS}
        self._met: Counter[DeviceKind] = Counter()
        self._found: dict[DeviceKind, Counter[str]] = {kind: Counter() for kind in _KINDS}
        self._unread = ""

    def chooses(self, kind: DeviceKind) -> bool:
        """Whether the next piece of that kind is one of those looked at."""
        self._met[kind] += 1
        return (self._met[kind] - 1) % self._strides[kind] == 0

    def add(self, kind: DeviceKind, content: bytes) -> None:
        """Look at a piece that was chosen."""
        count = self._allowance.go_through
        try:
            if kind is DeviceKind.PTX:
                stated = read_ptx(content, count).version
            else:
                stated = read_toolkit(content, count)
        except (BinaryChecksError, BrokenDataError) as error:
            self.refuse(error)
        else:
            self._found[kind][stated] += 1

    def refuse(self, error: Exception) -> None:
        """Take note of the first chosen piece that could not be read, or of a whole object.

        What is not installed is said rather than anything else.
        """
        if isinstance(error, NotInstalled) or not self._unread:
            self._unread = str(error)

    def conclude(self) -> ToolkitSample:
        """What was counted, the most first."""
        toolkits, ptx = (tuple(self._found[kind].most_common()) for kind in _KINDS)
        return ToolkitSample(
            path=self._path,
            toolkits=toolkits,
            ptx=ptx,
            seen=sum(count for _, count in (*toolkits, *ptx)),
            total=self._total,
            unread=self._unread,
        )


def _count(item: Carrier, kind: DeviceKind | None = None) -> int:
    kinds = _KINDS if kind is None else (kind,)
    return sum(code.count for code in item.device_code if code.kind in kinds)
