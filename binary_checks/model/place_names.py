"""Where the user wants packages to run: what ``--binary-place`` says, one value a place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from binary_checks.errors import ProfileError

PLACE_KINDS: Final[Mapping[str, str]] = {
    "venv": "",
    "existing": "PYTHON",
    "prefix": "PATH",
    "image": "NAME",
}
"""What each kind of place is given behind its colon, "" where that is nothing."""
SPELLINGS: Final = "venv|existing:PYTHON|prefix:PATH|image:NAME"
RELATIVE: Final = frozenset({"oldest", "newest"})
"""Images that are chosen by what a package promises."""

_DIGEST = re.compile(r"([^/@]+)@([0-9a-f]{12,64})")


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceName:
    """A place as the user names it; which one that is shows when a package is put there.

    ``venv``: a fresh environment. ``existing:PYTHON``: that of an interpreter in which the package
    is installed. ``prefix:PATH``: that of a folder, a virtual environment or a conda prefix.
    ``image:NAME``: a clean root file system.
    """

    kind: str = "venv"
    argument: str = ""  # as it was spelled

    @property
    def label(self) -> str:
        """How items and reports name it."""
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    @property
    def is_there(self) -> bool:
        """Whether it is an environment that the package lies in already."""
        return self.kind in {"existing", "prefix"}


def split_digest(image: str) -> tuple[str, str]:
    """The name of an image, and the digest or its beginning where one is asked for, else ""."""
    found = _DIGEST.fullmatch(image)
    return (found[1], found[2]) if found else (image, "")


def read_place(text: str) -> PlaceName:
    """Read ``venv``, ``existing:PYTHON``, ``prefix:PATH`` or ``image:NAME``.

    Raises ProfileError for anything else.
    """
    kind, colon, argument = text.partition(":")
    wanted = PLACE_KINDS.get(kind)
    if wanted is None:
        raise ProfileError(f"{text}: no such place; there are {SPELLINGS}")
    if bool(wanted) != bool(argument) or (colon and not wanted):
        spelled = f"{kind}:{wanted}" if wanted else kind
        raise ProfileError(f"{text}: a place of this kind is spelled {spelled}")
    return PlaceName(kind=kind, argument=argument)
