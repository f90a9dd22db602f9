"""The NVIDIA devices that attempts of this host may be given, one each."""

from __future__ import annotations

import os
from pathlib import Path


def count_gpus() -> int:
    """The NVIDIA devices of this host that are not hidden from this process."""
    found = len(list(Path("/proc/driver/nvidia/gpus").glob("*"))) or len(
        list(Path("/dev").glob("nvidia[0-9]*"))
    )
    return min(found, len(_list_visible(found)))


def list_devices(count: int) -> list[str]:
    """A device for each of so many attempts at once, as CUDA names it: "" for whatever there is.

    More attempts than devices share them.
    """
    names = _list_visible(count)
    return [names[number % len(names)] if names else "" for number in range(count)]


def _list_visible(most: int) -> list[str]:
    """The devices as CUDA_VISIBLE_DEVICES names them, of so many at most."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(map(str, range(most)))
    return [each.strip() for each in visible.split(",") if each.strip() not in ("", "-1")]
