"""Push built packages into a channel."""

from __future__ import annotations

from pathlib import Path

from binary_checks.fleet.artifacts import Artifact, PushRequest, push_file, read_given
from binary_checks.fleet.store import Store


def publish(store: Store, channel: str, *paths: Path) -> list[Artifact]:
    """Have the packages be members of the channel, or keep them in none if it is ""."""
    given, channels = read_given("c" * 40), (channel,) if channel else ()
    found = []
    for path in paths:
        request = PushRequest(given=given, folder=path.parent, channels=channels)
        found.append(push_file(store, path, request).artifact)
    return found
