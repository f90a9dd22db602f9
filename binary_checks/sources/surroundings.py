"""What a run knows that a source is found with: the interpreter, and how far it may be asked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binary_checks.places.existing import Folders
    from binary_checks.places.sandbox import Sandbox

_PATIENCE = 60.0  # seconds in which an interpreter must have started


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """The interpreter that packages are installed for is asked once, however many are named."""

    python: Path
    sandbox: Sandbox | None = None
    static: bool = False  # nothing runs that is installed for it

    @cached_property
    def folders(self) -> Folders:
        """Where it looks for packages, by reading alone. Raises GatherError."""
        from binary_checks import places  # for few runs

        return places.list_folders(self.python, timeout=_PATIENCE, site=False)

    @cached_property
    def folders_by_code(self) -> Folders | None:
        """The same as an import finds it, None where no code may run, or there is none."""
        from binary_checks import places

        if self.static or not self.folders.unread:
            return None
        return places.list_folders(self.python, timeout=_PATIENCE, sandbox=self.sandbox)
