"""Which GPUs a text of PTX may be compiled for, and which of many texts are worth the time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from binary_checks.knowledge.device_reach import runs_on
from binary_checks.model import DeviceKind, DeviceTarget

_RECENT: Final = tuple(f"sm_{n}" for n in (75, 80, 86, 89, 90, 100, 103, 107, 110, 120, 121))
"""What CUDA 13.5 knows: by it the time is estimated before anything has been asked."""


class PtxSize(NamedTuple):
    """One text that may be chosen."""

    architecture: str  # "sm_90a"
    size: int  # bytes


def find_reachable(architecture: str, known: Iterable[str]) -> tuple[str, ...]:
    """Find which of the known targets PTX for that architecture may be compiled for, in order.

    PTX with the suffix ``a`` is compiled under its own name alone, all other without a suffix.
    """
    numbers = sorted(set(map(_number, known)))
    if architecture.endswith("a"):
        return (architecture,) if _number(architecture) in numbers else ()
    text = DeviceTarget(kind=DeviceKind.PTX, architecture=architecture)
    names = (f"sm_{number}" for number in numbers)
    return tuple(name for name in names if runs_on(text, name))


def choose_targets(architecture: str, known: Iterable[str]) -> tuple[str, ...]:
    """Choose the newest that is known of each major version, from its own on."""
    reachable = find_reachable(architecture, known)
    newest = {_number(target) // 10: target for target in reachable}
    return tuple(newest.values())


def limit_targets(targets: Sequence[str], size: int, most: int) -> tuple[str, ...]:
    """All of the targets, or the last where a text alone would take more bytes than ``most``."""
    return tuple(targets if size * len(targets) <= most else targets[-1:])


def choose_texts(sizes: Sequence[PtxSize], most: int) -> tuple[int, ...]:
    """Choose a sample by index: the smallest and the largest in turn, of newer targets first.

    ``most`` are bytes, each counted once for every target that it is compiled for.
    """
    order = sorted(
        range(len(sizes)),
        key=lambda each: (-_number(sizes[each].architecture), sizes[each].size, each),
    )
    chosen, left = [], most
    for place in _from_both_ends(order):
        text = sizes[place]
        targets = choose_targets(text.architecture, _RECENT)
        cost = text.size * max(1, len(limit_targets(targets, text.size, most)))
        if cost <= left:
            chosen.append(place)
            left -= cost
    return tuple(sorted(chosen))


def _from_both_ends(order: list[int]) -> Iterable[int]:
    first, last = 0, len(order) - 1
    while first <= last:
        yield order[first]
        if first < last:
            yield order[last]
        first, last = first + 1, last - 1


def _number(architecture: str) -> int:
    match = re.fullmatch(r"sm_(\d{1,4})[af]?", architecture)
    return int(match[1]) if match else 0
