"""Brings the index of a channel up to date after its members have changed."""

from __future__ import annotations

from collections.abc import Iterable

from binary_checks.command import UNREADABLE, complain, status_of
from binary_checks.errors import BinaryChecksError
from binary_checks.fleet.artifacts.channel_index import write_index
from binary_checks.fleet.store import Store
from binary_checks.lines import MOST


def update_index(store: Store, channel: str) -> int:
    """Have the index be that of the members; the exit status, 0 where all of them are in it.

    What has been done to the members stays done, whatever becomes of the index.
    """
    try:
        faults = write_index(store, channel).faults
    except BinaryChecksError as error:
        complain(str(error))
        return status_of(error)
    tell_faults(channel, faults)
    return UNREADABLE if faults else 0


def tell_faults(channel: str, faults: Iterable[str]) -> None:
    """Complain of the members that an installer could not read, and are left out."""
    faults = tuple(faults)
    for fault in faults[:MOST]:
        complain(f"{channel}: {fault}")
    if len(faults) > MOST:
        complain(f"{channel}: and {len(faults) - MOST:,} more that are not listed")
