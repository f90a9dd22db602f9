"""What other libraries read in the objects of a package, beside our own readers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """One fact of one object that a library reads otherwise than we do."""

    path: str  # of the object, and its architecture where the file has several
    library: str  # "LIEF 1.0.0"
    fact: str  # "needed"
    ours: str  # both as a sentence can hold them
    theirs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NoOpinion:
    """One object, or all of them, of which a library says nothing, and why."""

    path: str = ""  # "" is every object of its format
    library: str
    reason: str
    fact: str = ""  # the only one that it does not know; "" is all


@dataclass(frozen=True, kw_only=True, slots=True)
class SecondOpinion:
    """The facts of a package's objects as other libraries read them, held against ours."""

    libraries: tuple[str, ...] = ()  # those that answered, with their versions
    objects: int = 0  # of which at least one library said something
    compared: int = 0  # facts, counted once for each library
    disagreements: tuple[Disagreement, ...] = ()
    missing: tuple[NoOpinion, ...] = ()
