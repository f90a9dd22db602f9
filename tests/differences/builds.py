"""Builds by hand, and what comes of comparing two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from binary_checks.differences import compare
from binary_checks.model import Build, BuildComparison, Edge, Linkage, Package, Rule
from fixtures.values import wheel


def build(package: Package | None = None, **fields: Any) -> Build:
    """A build of these facts; what is not given is a wheel with nothing in it."""
    return Build(label=fields.pop("label", "demo.whl"), package=package or wheel(), **fields)


def linkage(*needs: tuple[str, str, str | None]) -> Linkage:
    """Edges of ``(object, needed, resolved)``."""
    return Linkage(
        target="t",
        edges=tuple(
            Edge(
                path=path,
                architecture="x86_64",
                needed=needed,
                resolved=resolved,
                rule=Rule.MISSING if resolved is None else Rule.SYSTEM,
            )
            for path, needed, resolved in needs
        ),
    )


def said(old: Build | Package, new: Build | Package) -> list[str]:
    """The lines: severity, difference and text."""
    found = compared(old, new)
    return [f"{line.severity.value} {line.difference}: {line.text}" for line in found.lines]


def compared(old: Build | Package, new: Build | Package) -> BuildComparison:
    """The comparison, of packages alone where nothing else is known of the builds."""
    one, other = (each if isinstance(each, Build) else build(each) for each in (old, new))
    return compare(one, other)


def only(lines: Iterable[str], name: str) -> list[str]:
    """Those of one difference."""
    return [line for line in lines if f" {name}: " in line]
