"""The results of a run so far: entries from all workers, and complaints derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType

from binary_checks.model import BROKE, Entry, Outcome, PackageIdentity, PackageResult, conclude
from binary_checks.reports.verdict_texts import most_common
from binary_checks.safe_text import one_line

ACCEPTING = 'to let it pass, say unjudged = "accept" in the profile'
"""Advice for a package whose native code could not be judged at all."""
_KNOWN = tuple(field.name for field in fields(PackageIdentity))


@dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """A reason why a run must not pass although no check failed."""

    line: str
    # whether a cause outside of the package failed, so that another run may succeed
    excused: bool = False


class Ledger:
    """The entries of a run, in the order of their arrival."""

    def __init__(
        self,
        *,
        packages: Iterable[PackageIdentity] = (),
        required: frozenset[str] = frozenset(),
        accepts_unjudged: bool = False,
    ) -> None:
        self.required = required  # families given to --binary-require
        self._accepts_unjudged = accepts_unjudged  # whether the profile lets unjudged code pass
        # packages that the user named
        self._packages = {package.node: package for package in packages}
        self._entries: dict[str, list[Entry]] = {node: [] for node in self._packages}

    def identify(self, package: PackageIdentity) -> None:
        """Store the facts known about a package."""
        self._packages[package.node] = package

    def add(self, node: str, entry: Entry) -> None:
        """Add one entry."""
        self._entries[node].append(entry)

    def package(self, node: str) -> PackageIdentity:
        """Return the facts known about a package."""
        return self._packages[node]

    def outcomes(self) -> frozenset[Outcome]:
        """Return all outcomes so far."""
        return frozenset(entry.outcome for entries in self._entries.values() for entry in entries)

    def results(
        self, stopped: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[PackageResult, ...]:
        """Return each package's results, sorted by node.

        ``stopped`` states why results are incomplete, by node.
        """
        found = (self.result(node, stopped.get(node, "")) for node in sorted(self._entries))
        # A release is omitted if no check of several packages was selected.
        return tuple(each for each in found if each.entries or each.stopped or not each.parts)

    def result(self, node: str, stopped: str = "") -> PackageResult:
        """Return one package's results, with entries sorted by check."""
        entries = self._entries[node]
        return PackageResult(
            **{name: getattr(self._packages[node], name) for name in _KNOWN},
            verdict=conclude(self._packages[node], (entry.outcome for entry in entries), stopped),
            stopped=stopped,
            entries=tuple(sorted(entries, key=lambda entry: (entry.item, entry.family))),
        )

    def complaints(self) -> Iterator[Complaint]:
        """Yield a complaint for each package and each required family that was not verified."""
        for node, entries in self._entries.items():
            if entries or not self._is_judged_together(node):
                accepts = self._accepts_unjudged
                yield from _find_unverified(self._packages[node], entries, accepts=accepts)
        for family in sorted(self.required):
            every = (entry for entries in self._entries.values() for entry in entries)
            ours = [entry for entry in every if entry.family == family]
            if not any(entry.inspected for entry in ours):
                reasons = most_common(e.reason for e in ours) or "no check was selected for it"
                line = f"--binary-require {family}: nothing ran ({reasons})"
                yield Complaint(line=line, excused=_broke(ours))

    def _is_judged_together(self, node: str) -> bool:
        """Return whether the node is a release, or a package in a run that has judged a release."""
        if self._packages[node].parts:
            return True
        together = (name for name, package in self._packages.items() if package.parts)
        return any(self._entries[name] for name in together)


def _find_unverified(
    package: PackageIdentity, entries: list[Entry], *, accepts: bool
) -> Iterator[Complaint]:
    """Yield why a package must not pass although no check failed.

    ``accepts`` states whether the profile accepts unjudged code.
    """
    name, found = one_line(package.shown_name), package.objects
    if any(entry.outcome is Outcome.FAILED for entry in entries) and not package.lacks_objects:
        return
    verified = any(entry.inspected or entry.outcome is Outcome.FAILED for entry in entries)
    if verified and package.lacks_objects:
        line = (
            f"{name}: nothing was verified ({found} object files, expected at least "
            f"{package.expected_objects}; say objects = {found} in the profile if that is right)"
        )
        yield Complaint(line=line)
    elif package.unjudged:
        why = f"none of its native code could be judged: {package.unjudged}"
        line = f"{name}: {Outcome.NOT_JUDGED.value}: {why}; {ACCEPTING}"
        yield from () if accepts else (Complaint(line=line),)
    elif package.unrun:
        yield Complaint(line=f"{name}: {Outcome.NOT_JUDGED.value}: {package.unrun}")
    elif not verified:
        reason = most_common(entry.reason for entry in entries) or "no check was selected for it"
        line = f"{name}: nothing was verified ({reason})"
        yield Complaint(line=line, excused=_broke(entries))


def _broke(entries: Iterable[Entry]) -> bool:
    return any(entry.outcome in BROKE or entry.is_gap_of_host for entry in entries)
