"""Lets the faults of objects that a package can do without warn, and fail nothing."""

from __future__ import annotations

import re
from dataclasses import replace

from binary_checks.model import Edge, Finding, Level, Linkage, Package, Problem

_GRAFTED = re.compile(r"-(?:[0-9a-f]{8}|[0-9a-f]{32})(?=[.-])")
"""The hash in names that repair tools give: such a library was in the package, and is lost."""
_WINDOWING = re.compile(r"lib(?:X\w+|xcb|xkbcommon|SM|ICE)[-.\w]*\.so")
"""The libraries of X. A plugin that needs them shows the windows, and Qt's platforms/
libqxcb.so, which QtGui opens by a name computed at run time, is what users of servers and minimal
images miss: "could not load the Qt platform plugin"."""


def soften(finding: Finding, linkage: Linkage | Package, edge: Edge | None = None) -> Finding:
    """The finding, a warning where its object is not reached; ``edge`` where a library is missing.

    Of an object that is only tried, it warns where a library lacks that was never in the package.
    A package in place of its linkage, where no loader of its system is known, softens nothing.
    """
    if isinstance(linkage, Package) or not isinstance(finding, Problem):
        return finding
    found = linkage.bystander(finding.path)
    if found is None:
        return finding
    if edge is not None and (_GRAFTED.search(edge.needed) or _WINDOWING.match(edge.needed)):
        return finding
    if not found.complete and (edge is None or edge.elsewhere):
        return finding
    sentence = f"{finding.sentence}; {found.reason}"
    return replace(finding, sentence=sentence, level=Level.WARNING)
