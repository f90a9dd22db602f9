"""Every exception of binary_checks: one line each, saying what went wrong and whose fault it is."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.lines import one_line


class BinaryChecksError(Exception):
    """The base of all: its text is one line, fit to be shown as it is."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class PackageError(BinaryChecksError):
    """The package cannot be read as what it claims to be; the package's fault."""


class MalformedError(BinaryChecksError):
    """The bytes of one object file contradict themselves; the package's fault.

    ``offset`` is the place in the object file, in bytes, where the contradiction was met.
    """

    def __init__(self, reason: str, offset: int = 0) -> None:
        super().__init__(f"{reason} (at byte {offset:#x})")
        self.reason = reason
        self.offset = offset


class ProfileError(BinaryChecksError):
    """A profile or an option says something that cannot be followed; the user's fault."""


class NotApplicable(BinaryChecksError):
    """The package has nothing that the check is about; nobody's fault."""


class Unavailable(BinaryChecksError):
    """There is something to look at, but it cannot be looked at here; never a pass."""


class TooLarge(Unavailable):
    """There is more of something than we read: a limit of ours hides the rest, which is a failure.

    Else a package could hide its faults behind ten million symbols.
    """


class NothingNamed(Unavailable):
    """A run was asked for that cannot be made with what the user named.

    There is no channel, or the place that was named is for other packages.
    """


class NotInstalled(Unavailable):
    """What would read it is not installed here; ``extra`` of binary_checks has it."""

    def __init__(self, reason: str, extra: str) -> None:
        super().__init__(f"{reason}: pip install binary-checks[{extra}]")
        self.extra = extra


class HostUnfit(Unavailable):
    """This host lacks, or has broken, what a look takes; the host's fault.

    Only the host's own evidence raises it, as an answer of its driver to a process in which no code
    of the package runs. A required family then ends with "try again", and not with a problem.
    """


class CheckError(BinaryChecksError):
    """A check broke, or says what no check can say; the fault of whoever wrote it."""


class ReadersDisagree(CheckError):
    """Two readers say different things of one object; the fault of one of them.

    ``lines`` has one for each difference.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(map(one_line, lines))
        more = f" (and {len(self.lines) - 1:,} more)" if len(self.lines) > 1 else ""
        super().__init__(f"{self.lines[0]}{more}")


class GatherError(BinaryChecksError):
    """We, the network or the environment broke while gathering; not the package's fault."""


class NotThere(GatherError):
    """A server, or a ``file:`` URL, was asked, and has nothing of that name."""


class RemoteChanged(GatherError):
    """A file on a server is another one than when its first bytes were read."""


class NoWheelError(GatherError):
    """The index was reached, and has no wheel of a required distribution for the package's system.

    ``lacking`` says which, for which Python on which system.
    """

    def __init__(self, reason: str, lacking: str) -> None:
        super().__init__(reason)
        self.lacking = lacking


class BrokenDataError(Exception):
    """Compressed bytes do not inflate to what was declared; it becomes a fault of their member."""


class StoreError(BinaryChecksError):
    """The store of results cannot be used, or holds what it should not; ours or the machine's."""


class RecordError(StoreError):
    """A document of the store is cut, corrupt, or of another version: it counts as lost."""


class PruneRefusedError(BinaryChecksError):
    """Retention would have to guess, so it deletes nothing; its text says why."""


class ArtifactRefusedError(BinaryChecksError):
    """An artifact contradicts itself, or what the store has; its text names both."""
