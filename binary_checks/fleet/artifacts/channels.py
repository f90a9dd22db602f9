"""Channels: each binds file names to bytes, permanently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from binary_checks.documents.json_values import DocumentError, decode_fields, dump, encode_fields
from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.artifacts.artifact import Artifact, ArtifactRefusedError
from binary_checks.fleet.artifacts.verdict import read_object
from binary_checks.fleet.store import (
    Store,
    Stored,
    ask_at_once,
    channel_prefix,
    is_safe_part,
    member_name,
    split_member,
    withdrawn_name,
    withdrawn_prefix,
)
from binary_checks.safe_text import cut, one_line

_LONGEST = 1024  # bytes of a member
_CONTENT = re.compile(rb"([0-9a-f]{64})\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelMember:
    """A file's membership in a channel: there the file name stands for the bytes of ``sha256``."""

    channel: str
    folder: str  # see `Artifact.folder`
    file_name: str
    sha256: str
    stored: Stored

    @property
    def project(self) -> str:
        """The project, for which a channel has a folder."""
        return self.folder.partition("/")[0]


def join_channel(store: Store, channel: str, artifact: Artifact) -> bool:
    """Put a stored artifact into a channel; return False if the channel had it already.

    A file name means one file in a channel. If several processes add different bytes under one name
    at the same time, one of them wins. Raises ArtifactRefusedError for the others, and StoreError
    if the store fails.
    """
    require_free(store, channel, artifact)
    if store.create(_name(channel, artifact), f"{artifact.sha256}\n".encode("ascii")):
        return True
    _require_same_bytes(store, channel, artifact)  # another process was faster
    return False


def require_free(store: Store, channel: str, artifact: Artifact) -> None:
    """Raise ArtifactRefusedError if the channel has other bytes under that file name."""
    require_channel(channel)
    _require_same_bytes(store, channel, artifact)
    name = _name(channel, artifact)
    folder = name.rpartition("/")[0]
    for each in store.names(f"{folder}/"):
        if each.name != name and each.name.lower() == name.lower():
            raise ArtifactRefusedError(
                f"{artifact.label}: the channel {channel} has {each.name.rpartition('/')[2]}, "
                "which installers and some file systems take for the same name"
            )


def _require_same_bytes(store: Store, channel: str, artifact: Artifact) -> None:
    name = _name(channel, artifact)
    content = store.read(name, _LONGEST)
    if content is not None and (found := _read_member(store, name, content)) != artifact.sha256:
        raise ArtifactRefusedError(
            f"{artifact.label}: the channel {channel} has other bytes under that name: "
            f"sha256 {found}, but this file has {artifact.sha256}; a rebuilt file needs a new "
            "version or build number"
        )


def list_members(
    store: Store, channel: str = "", broken: list[str] | None = None
) -> list[ChannelMember]:
    """Return all members of a channel, or of all channels, by name.

    A member whose object does not contain a valid hash adds a line to ``broken``; without
    ``broken`` it raises RecordError.
    """
    if channel:
        require_channel(channel)
    listed = {each.name: each for each in store.names(channel_prefix(channel))}
    members: list[ChannelMember] = []
    for found in ask_at_once(lambda name: _try(store, listed[name]), listed):
        if isinstance(found, ChannelMember):
            members.append(found)
        elif found is not None:
            if broken is None:
                raise found
            broken.append(str(found))
    return members


def _try(store: Store, stored: Stored) -> ChannelMember | RecordError | None:
    """Return a member, or the error that it causes; None if it was removed meanwhile."""
    try:
        content = store.read(stored.name, _LONGEST)
        return None if content is None else _make_member(store, stored, content)
    except RecordError as error:
        return error


def list_channels(store: Store) -> list[str]:
    """Return the channels that have a member."""
    return [name.split("/")[1] for name in store.folders(channel_prefix())]


def _name(channel: str, artifact: Artifact) -> str:
    return member_name(channel, artifact.folder, artifact.file_name)


def require_channel(channel: str) -> str:
    """Return the channel; raise ProfileError if a channel cannot have that name."""
    if not is_safe_part(channel):
        shown = cut(one_line(repr(channel)), 80)
        raise ProfileError(f"{shown}: not a name for a channel: only letters, digits and ._+-")
    return channel


def _make_member(store: Store, stored: Stored, content: bytes) -> ChannelMember:
    parts = split_member(stored.name)
    sha256 = _read_member(store, stored.name, content)
    if parts is None:
        raise RecordError(f"{store.url}: {stored.name}: not a valid name for a member of a channel")
    channel, folder, file_name = parts
    return ChannelMember(
        channel=channel,
        folder=folder,
        file_name=file_name,
        sha256=sha256,
        stored=stored,
    )


def _read_member(store: Store, name: str, content: bytes) -> str:
    found = _CONTENT.fullmatch(content)
    if found is None:
        raise RecordError(f"{store.url}: {name}: it does not state the SHA-256 of its package")
    return found[1].decode("ascii")


# Withdrawals: installers ignore a withdrawn file unless it is pinned (PEP 592).
#
# The file stays, so that users who depend on it still get it. A withdrawal cannot be undone.

WITHDRAWAL_SCHEMA = "binary-checks/withdrawal/1"
_LARGEST = 64 << 10  # bytes of one document
_NAME = re.compile(r"withdrawn/[^/]+/[^/]+/([0-9a-f]{64})\.json")


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdrawal:
    """A channel's advice against a file, with the reason."""

    sha256: str
    file_name: str
    channel: str
    reason: str  # one line
    at: str  # RFC 3339, UTC
    by: str = ""


def withdraw(store: Store, artifact: Artifact, withdrawal: Withdrawal) -> bool:
    """Withdraw a file; return False if the channel had withdrawn it already."""
    row = {"schema": WITHDRAWAL_SCHEMA, **encode_fields(withdrawal)}
    name = withdrawn_name(withdrawal.channel, artifact.project, artifact.sha256)
    return store.create(name, f"{dump(row)}\n".encode("ascii"))


def list_withdrawn(store: Store, channel: str) -> Mapping[str, str]:
    """Return SHA-256 -> reason for all files that the channel withdrew. Raises RecordError."""
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
            raise DocumentError(f"not a document {WITHDRAWAL_SCHEMA}")
        found = Withdrawal(**decode_fields(Withdrawal, row))
        if found.sha256 != digest:
            raise DocumentError(f"it is for other bytes: {found.sha256!r:.80}")
        if not found.reason or found.reason != cut(one_line(found.reason)):
            raise DocumentError("its reason is not one line")
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None
    return found
