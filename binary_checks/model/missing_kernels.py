"""Kernels of a source file that were compiled for some of its architectures and not for others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class KernelGap:
    """One kernel of one container, which a compiler makes for each source file."""

    name: str  # mangled
    lacking: tuple[str, ...]  # architectures without suffix, "sm_75", sorted by number
    having: tuple[str, ...]
    offset: int  # bytes from the start of the file: the first entry of the first such container


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectGaps:
    """Those of one object."""

    path: str
    gaps: tuple[KernelGap, ...] = ()  # sorted by name
    containers: int = 0  # that were compared: with machine code for more than one architecture
    unread: tuple[str, ...] = ()  # why some code could not be compared, each reason once


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelGaps:
    """Those of every object with code for NVIDIA's GPUs."""

    objects: tuple[ObjectGaps, ...] = ()  # in the order of the package's objects
