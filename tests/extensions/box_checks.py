"""Toy checks: one of each kind of fact."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks import check
from tests.extensions.rune_format import RuneFile
from tests.extensions.toy_kind import Toy
from tests.extensions.weigh.reader import Weight


@check
def unlucky_rune(rune: RuneFile) -> Iterator[str]:
    """A rune needs what brings bad luck.

    Why: stones remember.
    Fix: carve another one.
    """
    for need in rune.needed:
        if need.name == "raven":
            yield "needs raven"


@check
def empty_box(package: Toy) -> Iterator[str]:
    """A box is empty.

    Why: nobody wants one.
    Fix: put something into it.
    """
    if len(package.members) < 2:
        yield "holds nothing but TOY"


@check
def heavy_box(package: Toy, weight: Weight) -> Iterator[str]:
    """A box weighs more than it says.

    Why: it has to be carried.
    Fix: take something out.
    """
    if weight.files != len(package.members):
        yield f"{weight.files} files lie where {len(package.members)} were packed"
