"""The settings of one run, in one frozen record that is never copied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from binary_checks.declaring import Check, Gatherer
from binary_checks.model import StatedConfiguration
from binary_checks.options import Program
from binary_checks.profile import Profile

if TYPE_CHECKING:
    from binary_checks.places import PlaceSettings
    from binary_checks.sources.release import ExpectedSet


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """The settings that apply to all packages of a run."""

    profile: Profile = field(default_factory=Profile)
    checks: tuple[Check[Any], ...] = ()  # checks selected by profile and options
    # gatherers of a project
    gatherers: Mapping[type, Gatherer[..., Any]] = field(default_factory=dict)
    places: tuple[PlaceSettings, ...] = ()
    """The places in which packages are installed and run; empty in a static run."""
    required: frozenset[str] = frozenset()  # families whose checks must be able to inspect
    expected: ExpectedSet | None = None  # the file names that the packages must have together
    stated: StatedConfiguration = field(default_factory=StatedConfiguration)
    """The statements of the user and the CI system about the packages."""
    today: date = field(default_factory=date.today)  # date on which known problems must be valid
    program: Program = Program.COMMAND  # the program whose options messages name
    owns_process: bool = False  # whether nothing but this run happens in the process

    @property
    def is_static(self) -> bool:
        """Return whether the run installs no package and runs no code of packages."""
        return not self.places
