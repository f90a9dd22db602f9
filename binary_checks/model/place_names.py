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
    "image": "REFERENCE",
}
"""What each kind of place is given behind its colon, "" where that is nothing."""
SPELLINGS: Final = "venv|existing:PYTHON|prefix:PATH|image:REFERENCE"
RELATIVE: Final = frozenset({"oldest", "newest"})
"""Images that are chosen by what a package promises."""

_REFERENCE = re.compile(r"[a-z0-9][\w.:/@-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceName:
    """A place as the user names it; which one that is shows when a package is put there.

    ``venv``: a fresh environment. ``existing:PYTHON``: that of an interpreter in which the package
    is installed. ``prefix:PATH``: that of a folder, a virtual environment or a conda prefix.
    ``image:REFERENCE``: a container of an image.
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


def read_place(text: str) -> PlaceName:
    """Read ``venv``, ``existing:PYTHON``, ``prefix:PATH`` or ``image:REFERENCE``.

    Raises ProfileError for anything else.
    """
    kind, colon, argument = text.partition(":")
    wanted = PLACE_KINDS.get(kind)
    if wanted is None:
        raise ProfileError(f"{text}: no such place; there are {SPELLINGS}")
    if bool(wanted) != bool(argument) or (colon and not wanted):
        spelled = f"{kind}:{wanted}" if wanted else kind
        raise ProfileError(f"{text}: a place of this kind is spelled {spelled}")
    if kind == "image" and not _REFERENCE.fullmatch(argument):
        raise ProfileError(f"{text}: no reference of an image, such as debian:bookworm-slim")
    return PlaceName(kind=kind, argument=argument)
