"""What the user asked for, beside the packages themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binary_checks.declaring import Gatherer
from binary_checks.model.binary_configuration import StatedConfiguration
from binary_checks.model.places import PlaceName
from binary_checks.model.protocols import ObjectReader, Progress, Want
from binary_checks.profile.reading import Profile

if TYPE_CHECKING:
    from binary_checks.places import Sandbox
    from binary_checks.sources.release import ExpectedSet


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What holds for all packages of a run."""

    profile: Profile = field(default_factory=Profile)
    python: Path  # the interpreter that runtime checks run in, or a place is made from
    place: PlaceName = field(default_factory=PlaceName)  # where they run
    sandbox: Sandbox | None = None  # what keeps them from the rest; None: nothing
    channels: tuple[str, ...] = ()  # of conda, where what its packages require comes from
    builds: bool = False  # whether an installer may build sdists, and follow requirements by URL
    expected: ExpectedSet | None = None  # the files that all packages together must be
    gatherers: Mapping[type, Gatherer[..., Any]] = field(default_factory=dict)  # a project's own
    stated: StatedConfiguration = field(default_factory=StatedConfiguration)
    """What the user and the CI system say that the packages are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReaderSettings:
    """How a package is read: by whom, and who hears how far it is."""

    reader: ObjectReader
    progress: Progress | None = None
    wants: tuple[Want, ...] = ()  # by all that gathers
