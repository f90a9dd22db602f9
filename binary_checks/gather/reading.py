"""Reads the package itself, once for all facts, and names the system that it promises to run on."""

from __future__ import annotations

from binary_checks import objects, systems
from binary_checks.declaring import gathers
from binary_checks.gather.member_contents import MemberContents
from binary_checks.model import Package, TargetSystem
from binary_checks.model.protocols import Progress, Reading, Source, Wants
from binary_checks.profile.reading import Profile


@gathers(Reading)
def read_source(
    source: Source, profile: Profile, progress: Progress | None, wants: Wants
) -> Reading:
    """Read the package, once for all facts. Raises PackageError."""
    reader = objects.LimitedReader(profile.limit_factor, samples=True)
    return source.read(reader, progress, wants)


@gathers(Package)
def take_package(reading: Reading) -> Package:
    """Take the package that was read."""
    return reading.package


@gathers(MemberContents)
def take_contents(reading: Reading, source: Source) -> MemberContents:
    """Take what was kept of its members."""
    return MemberContents(reading.package, reading.kept, source.open)


@gathers(TargetSystem)
def name_target(package: Package, profile: Profile) -> TargetSystem:
    """Name the system that the package promises to run on, with what the profile adds to it."""
    return systems.target_for(package.claims, profile.system_libraries, profile.dll_directories)
