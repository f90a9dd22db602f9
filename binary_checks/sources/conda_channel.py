"""Packages in conda channels: ``conda:conda-forge::numpy==2.4.6``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError, ProfileError, Unavailable
from binary_checks.model import Provenance
from binary_checks.sources.remote import Found, RemoteSource, share_found
from binary_checks.sources.run_environment import Surroundings

LABEL = "conda:"
"""Prefix of the argument; ``::`` separates the channel from the specification."""
_PATIENCE = 300.0  # seconds for the index of a channel, which may have 300 MB
_SUBDIRS = (  # platform tags, and conda's names for them
    (r".*linux.*_x86_64", "linux-64"),
    (r".*linux.*_(aarch64|ppc64le|s390x|riscv64)", "linux-{}"),
    (r"macosx_.*_x86_64", "osx-64"),
    (r"macosx_.*_arm64", "osx-arm64"),
    (r"win_amd64", "win-64"),
    (r"win_arm64", "win-arm64"),
)


def parse(argument: str, folder: Path) -> NamedRecord | None:
    """Read the channel and the specification after ``conda:``."""
    if not argument.startswith(LABEL):
        return None
    channel, spec = _split(argument.removeprefix(LABEL))
    return NamedRecord(channel=channel.strip(), spec=spec.strip(), folder=folder)


def cut_check(argument: str) -> tuple[str, str, str]:
    """Split an argument into package, ``::`` and check; a channel may contain colons, too."""
    if not argument.startswith(LABEL):
        return argument.partition("::")
    channel, colons, rest = argument.partition("::")
    # test ids contain a single colon between channel and specification
    if re.match(r"conda:(?![A-Za-z]:[\\/])[^:]+:[^:/]+\Z", channel):
        return channel, colons, rest
    spec, colons, check = rest.partition("::")
    return f"{channel}::{spec}" if spec else channel, colons, check


def _split(text: str) -> tuple[str, str]:
    """Split the text at ``::`` or, without one, at its last colon, as in the ids of pytest."""
    channel, colons, spec = text.partition("::")
    if not colons:
        channel, colons, spec = text.rpartition(":")
    return channel, spec


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedRecord:
    """A package in a channel, as the user named it."""

    channel: str  # a name, a URL or a folder
    spec: str  # "numpy==2.4.6", or another match specification
    folder: Path  # the current folder

    @property
    def shown(self) -> str:
        """The channel without secrets in its URL."""
        from binary_checks.web.addresses import show

        return show(self.channel) if "://" in self.channel else self.channel

    @property
    def path(self) -> Path:
        """The argument as a path in the current folder."""
        text = f"{LABEL}{self.shown}:{self.spec}"
        return self.folder / re.sub(r"[/\\]+", "_", re.sub(r"\s+", " ", text))

    def resolve(self, surroundings: Surroundings) -> RemoteSource:
        """Choose the package that a user would get. Raises ProfileError or GatherError."""
        if not self.channel or not self.spec:
            raise ProfileError(
                f"{LABEL}{self.shown}{self.spec}: name a channel and a package, such "
                "as conda:conda-forge::numpy==2.4.6"
            )
        key = f"{LABEL}{self.channel}::{self.spec} for {surroundings.target}"
        return share_found(self.path, key, partial(_choose, self, surroundings), surroundings)


def _choose(named: NamedRecord, surroundings: Surroundings) -> Found:
    from binary_checks.places.conda_places import format_channel
    from binary_checks.web.addresses import show

    channel = format_channel(named.channel, named.folder)
    request = RecordRequest(
        spec=named.spec,
        subdir=_name_subdir(surroundings.target),
        python=".".join(surroundings.tagged_python.version.split(".")[:2]),
        strict=False,
    )
    (record,) = find_records(named.channel, named.folder, [request], surroundings, spec=named.spec)
    if unsolved := record.get("unsolved"):
        raise ProfileError(f"{LABEL}{named.shown}::{named.spec}: {unsolved}")
    url, sha256, md5 = (str(record[key]) for key in ("url", "sha256", "md5"))
    hashes = {name: value for name, value in (("sha256", sha256), ("md5", md5)) if value}
    provenance = Provenance(
        asked=f"{LABEL}{show(channel) if '://' in channel else channel}::{named.spec}",
        kind="channel",
        url=show(url),
        index=show(str(record["channel"])),
        sha256=sha256,
        size=record["size"],
        uploaded=str(record["timestamp"]),
    )
    return Found(
        url=url,
        file_name=str(record["file_name"]),
        key=sha256 or md5 or hashlib.sha256(url.encode()).hexdigest(),
        hashes=hashes,
        size=provenance.size,
        stated_by=provenance.index,
        provenance=asdict(provenance),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordRequest:
    """A query for a package in a channel."""

    spec: str  # "numpy==2.4.6", or another match specification
    subdir: str  # "linux-64"; "" for this host's subdir
    python: str  # "3.12", "3.13t"; "" for any
    strict: bool = True  # whether to exclude builds for other Pythons


def find_records(
    channel: str,
    folder: Path,
    requests: Sequence[RecordRequest],
    surroundings: Surroundings,
    *,
    spec: str = "",
) -> list[dict[str, Any]]:
    """Return the channel's newest record for each request, or the reason under ``unsolved``.

    One process answers all requests, and so reads the channel's index only once. Raises
    ProfileError or GatherError, which also names ``spec``, if the channel cannot be queried.
    """
    import tempfile

    from binary_checks.places import Sandbox
    from binary_checks.places.conda_places import ask_channels, format_channel

    shown = NamedRecord(channel=channel, spec=spec, folder=folder).shown
    what = f"{LABEL}{shown}::{spec}".removesuffix("::")
    task = {
        "task": "find",
        "channels": [format_channel(channel, folder)],
        "wanted": [asdict(each) for each in requests],
    }
    sandbox = surroundings.sandbox or Sandbox()
    with tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True) as root:
        try:
            answer = ask_channels(task, Path(root).resolve(), timeout=_PATIENCE, sandbox=sandbox)
        except Unavailable as error:
            raise ProfileError(f"{what}: {error}") from None
    if len(answer.records) != len(requests):
        raise GatherError(f"{what}: {answer.unsolved or 'py-rattler answered in part'}")
    return [dict(record) for record in answer.records]


def _name_subdir(target: str) -> str:
    """Return conda's name of a target's system: ``win-64`` for ``cp312-win_amd64``.

    Return "" for this host.
    """
    platform = target.partition("-")[2]
    for pattern, subdir in _SUBDIRS:
        if match := re.fullmatch(pattern, platform):
            return subdir.format(*match.groups())
    if target:
        raise ProfileError(f"--binary-for {target}: conda has no such platform")
    return ""
