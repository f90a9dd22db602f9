"""Channels: which bytes each has under which file name, for ever."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from binary_checks.documents.json_values import OddityError, decode_fields, dump, encode_fields
from binary_checks.errors import ArtifactRefusedError, ProfileError, RecordError
from binary_checks.fleet.artifacts.artifact import Artifact
from binary_checks.fleet.artifacts.verdict import read_object
from binary_checks.fleet.store import Store, Stored, ask_at_once
from binary_checks.fleet.store.store_names import (
    channel_prefix,
    is_safe_part,
    member_name,
    split_member,
    withdrawn_name,
    withdrawn_prefix,
)
from binary_checks.lines import cut, one_line

_LONGEST = 1024  # bytes of a member
_CONTENT = re.compile(rb"([0-9a-f]{64})\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelMember:
    """That a channel has those bytes under that file name."""

    channel: str
    project: str
    file_name: str
    sha256: str
    stored: Stored
    subdir: str = ""  # of a conda package


def join_channel(store: Store, channel: str, artifact: Artifact) -> bool:
    """Put an artifact that is kept into a channel; False where it was in it already.

    A file name means one file in a channel: of those who bring other bytes under it at the same
    time one wins. Raises ArtifactRefusedError for all others, and StoreError where the store fails.
    """
    demand_free(store, channel, artifact)
    if store.create(_name(channel, artifact), f"{artifact.sha256}\n".encode("ascii")):
        return True
    _demand_same_bytes(store, channel, artifact)  # somebody was quicker
    return False


def demand_free(store: Store, channel: str, artifact: Artifact) -> None:
    """Raise ArtifactRefusedError where the channel has other bytes under that file name."""
    demand_channel(channel)
    _demand_same_bytes(store, channel, artifact)
    name = _name(channel, artifact)
    folder = name.rpartition("/")[0]
    for each in store.names(f"{folder}/"):
        if each.name != name and each.name.lower() == name.lower():
            raise ArtifactRefusedError(
                f"{artifact.file_name}: the channel {channel} has {each.name.rpartition('/')[2]}, "
                "which is the same name to installers and on other systems"
            )


def _demand_same_bytes(store: Store, channel: str, artifact: Artifact) -> None:
    name = _name(channel, artifact)
    content = store.read(name, _LONGEST)
    if content is not None and (found := _read_member(store, name, content)) != artifact.sha256:
        raise ArtifactRefusedError(
            f"{artifact.file_name}: the channel {channel} has other bytes under that name: "
            f"sha256 {found}, and these are {artifact.sha256}; a rebuilt file needs a version or a "
            "build number of its own"
        )


def list_members(
    store: Store, channel: str = "", broken: list[str] | None = None
) -> list[ChannelMember]:
    """All members of a channel, or of all channels, by name.

    Of one that does not say which bytes it means ``broken`` gets a line; without it, RecordError
    is raised.
    """
    if channel:
        demand_channel(channel)
    listed = {each.name: each for each in store.names(channel_prefix(channel))}
    members: list[ChannelMember] = []
    for found in ask_at_once(lambda name: _try(store, listed[name]), listed):
        if isinstance(found, ChannelMember):
            members.append(found)
        elif found is not None and broken is None:
            raise found
        elif found is not None and broken is not None:
            broken.append(str(found))
    return members


def _try(store: Store, stored: Stored) -> ChannelMember | RecordError | None:
    """A member, or why it is none; None for one that was taken out meanwhile."""
    try:
        content = store.read(stored.name, _LONGEST)
        return None if content is None else _make_member(store, stored, content)
    except RecordError as error:
        return error


def list_channels(store: Store) -> list[str]:
    """The channels that have a member."""
    return [name.split("/")[1] for name in store.folders(channel_prefix())]


def _name(channel: str, artifact: Artifact) -> str:
    return member_name(channel, artifact.project, artifact.file_name, artifact.subdir)


def demand_channel(channel: str) -> str:
    """Raise ProfileError for what cannot be the name of a channel."""
    if not is_safe_part(channel):
        shown = cut(one_line(repr(channel)), 80)
        raise ProfileError(f"{shown}: not a name for a channel: only letters, digits and ._+-")
    return channel


def _make_member(store: Store, stored: Stored, content: bytes) -> ChannelMember:
    parts = split_member(stored.name)
    sha256 = _read_member(store, stored.name, content)
    if parts is None:
        raise RecordError(f"{store.url}: {stored.name}: not the name of a channel's member")
    channel, project, subdir, file_name = parts
    return ChannelMember(
        channel=channel,
        project=project,
        subdir=subdir,
        file_name=file_name,
        sha256=sha256,
        stored=stored,
    )


def _read_member(store: Store, name: str, content: bytes) -> str:
    found = _CONTENT.fullmatch(content)
    if found is None:
        raise RecordError(f"{store.url}: {name}: does not say which package it holds")
    return found[1].decode("ascii")


# Files that a channel advises against: installers pass over them unless they are pinned (PEP 592).
#
# They stay where they are, so that whoever depends on one still gets it; a withdrawal is for ever.

WITHDRAWAL_SCHEMA = "binary-checks/withdrawal/1"
_LARGEST = 64 << 10  # bytes of one
_NAME = re.compile(r"withdrawn/[^/]+/[^/]+/([0-9a-f]{64})\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdrawal:
    """That a channel advises against a file, and why."""

    sha256: str
    file_name: str
    channel: str
    reason: str  # one line
    at: str  # RFC 3339, UTC
    by: str = ""


def withdraw(store: Store, artifact: Artifact, withdrawal: Withdrawal) -> bool:
    """Advise against a file from now on; False where the channel did so already."""
    row = {"schema": WITHDRAWAL_SCHEMA, **encode_fields(withdrawal)}
    name = withdrawn_name(withdrawal.channel, artifact.project, artifact.sha256)
    return store.create(name, f"{dump(row)}\n".encode("ascii"))


def list_withdrawn(store: Store, channel: str) -> Mapping[str, str]:
    """The SHA-256 of all files that a channel advises against, and why. Raises RecordError."""
    listed = (each.name for each in store.names(withdrawn_prefix(channel)))
    names = {found[1]: name for name in listed if (found := _NAME.fullmatch(name))}
    contents = ask_at_once(lambda name: store.read(name, _LARGEST), names.values())
    return {
        digest: _read(content or b"", f"{store.url}: {name}", digest).reason
        for (digest, name), content in zip(names.items(), contents, strict=True)
    }


def _read(content: bytes, named: str, digest: str) -> Withdrawal:
    try:
        row = read_object(content)
        if row.pop("schema", None) != WITHDRAWAL_SCHEMA:
            raise OddityError(f"not a document {WITHDRAWAL_SCHEMA}")
        found = Withdrawal(**decode_fields(Withdrawal, row))
        if found.sha256 != digest:
            raise OddityError(f"it is of other bytes: {found.sha256!r:.80}")
        if not found.reason or found.reason != cut(one_line(found.reason)):
            raise OddityError("its reason is not one line")
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None
    return found
