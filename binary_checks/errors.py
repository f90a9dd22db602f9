"""The exceptions of binary_checks, each with a line on whose fault it is, and the exit codes."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.safe_text import one_line


class BinaryChecksError(Exception):
    """The base class: the text is one line that can be shown unchanged."""

    def __str__(self) -> str:
        return one_line(super().__str__())


class PackageError(BinaryChecksError):
    """The package cannot be read as the kind of package it claims to be; the package's fault."""


class MalformedError(BinaryChecksError):
    """The bytes of one object file contradict themselves; the package's fault.

    ``offset`` is the place of the contradiction, in bytes from the start of the object file.
    """

    def __init__(self, reason: str, offset: int = 0) -> None:
        super().__init__(f"{reason} (at byte {offset:#x})")
        self.reason = reason
        self.offset = offset


class ProfileError(BinaryChecksError):
    """A profile or an option contains something invalid; the user's fault."""


class NotApplicable(BinaryChecksError):
    """The check does not apply to the package; nobody's fault."""


class Unavailable(BinaryChecksError):
    """There is something to inspect, but this run cannot inspect it; never a pass."""


class TooLarge(Unavailable):
    """Part of the package was not judged, because a limit of ours was exceeded; a failure.

    Otherwise a package could hide its faults behind ten million symbols.
    """


class NothingNamed(Unavailable):
    """The requested run is not possible with the arguments of the user.

    For example, no channel is named, or the named place is for another kind of package.
    """


class HostUnfit(Unavailable):
    """This host lacks something that the inspection needs, or is broken; the host's fault.

    Raised only on evidence about the host, such as the driver's answer to a process without any
    code of the package. A required family then ends with "try again" instead of a problem.
    """


class CheckError(BinaryChecksError):
    """A check failed or yielded something invalid; the fault of the check's author."""


class ReadersDisagree(CheckError):
    """Two readers disagree about one object; the fault of one of them.

    ``lines`` has one line for each difference.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self.lines = tuple(map(one_line, lines))
        more = f" (and {len(self.lines) - 1:,} more)" if len(self.lines) > 1 else ""
        super().__init__(f"{self.lines[0]}{more}")


class GatherError(BinaryChecksError):
    """We, the network or the environment failed while gathering; not the package's fault."""


class NotThere(GatherError):
    """A server, or a ``file:`` URL, has no file of that name."""


class RemoteChanged(GatherError):
    """A file on a server has changed since its first bytes were read."""


class NoWheelError(GatherError):
    """The index has no wheel of a required distribution for the package's system.

    ``lacking`` names the distribution, the Python and the system.
    """

    def __init__(self, reason: str, lacking: str) -> None:
        super().__init__(reason)
        self.lacking = lacking


class BrokenDataError(Exception):
    """Compressed bytes do not inflate to the declared contents; a fault of the member."""


class StoreError(BinaryChecksError):
    """The store of results cannot be used or has invalid contents; our fault or the machine's."""


class RecordError(StoreError):
    """A document of the store is truncated, corrupt, or of another version; it counts as lost."""


# The exit codes of `binary-checks`, on which users' scripts rely.

EXIT_CODES = range(7)
FIT, PROBLEMS, INTERRUPTED, OUR_BUG, MISUSED, EMPTY, TRY_AGAIN = EXIT_CODES
"""The first six are also pytest's: OUR_BUG is its internal error, EMPTY means that nothing was
collected.

TRY_AGAIN: no problem was found, but the network, the disk or the host failed.
"""
