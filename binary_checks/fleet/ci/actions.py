"""Pinned actions: the commits that workflows use, and the current commits of tags."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from binary_checks.errors import GatherError, ProfileError
from binary_checks.profile import convert, convert_table

# Pins in ``[ci.actions]``: each names a commit and the tag that the commit had.

NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}(?:/[A-Za-z0-9._/-]{1,100})?"
)
COMMIT = re.compile(r"[0-9a-f]{40}")
TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_KEYS = {"commit": str, "tag": str}


@dataclass(frozen=True, kw_only=True, slots=True)
class ActionPin:
    """An action pinned to a commit, which nobody can move, and the tag that people know."""

    name: str  # owner/repository, followed by a path if the action lies in a folder
    commit: str  # 40 hexadecimal digits
    tag: str  # v4.2.2

    @property
    def used(self) -> str:
        """The value of ``uses:``."""
        return f"{self.name}@{self.commit}"


def read_pins(value: object, where: str) -> dict[str, ActionPin]:
    """Read the table ``[ci.actions]``. Raises ProfileError, also for a pin without its tag."""
    table = convert(value, dict, where)
    return {name: _read_pin(name, row, f"{where}: {name!r}") for name, row in table.items()}


def _read_pin(name: str, row: Any, where: str) -> ActionPin:
    if not NAME.fullmatch(name):
        raise ProfileError(f"{where}: not an action, such as 'actions/checkout'")
    if not isinstance(row, dict):
        example = '{ commit = "40 hex digits", tag = "v4.2.2" }'
        raise ProfileError(f"{where}: write {example}")
    values = convert_table(row, _KEYS, where)
    if not COMMIT.fullmatch(values.get("commit", "")):
        raise ProfileError(f"{where}: commit: not the 40 hexadecimal digits of a commit")
    if not TAG.fullmatch(values.get("tag", "")):
        raise ProfileError(
            f"{where}: tag: not the tag of a version, such as v4.2.2; "
            f"`binary-checks ci pin {name}@TAG` prints the commit and the tag"
        )
    return ActionPin(name=name, **values)


def require_pin(pins: Mapping[str, ActionPin], name: str) -> ActionPin:
    """Return the pin of an action. Raises ProfileError if there is none."""
    if name not in pins:
        raise ProfileError(f"ci.actions: {name} is used but not pinned")
    return pins[name]


# Current tags, from ``git ls-remote``.

SERVER = "https://github.com"
_PATIENCE = 60.0  # seconds for one repository
_PEELED = "^{}"  # suffix of an annotated tag's line that shows the tagged commit
_LARGEST = 16 << 20  # bytes of an answer


def resolve_pin(wanted: str, server: str = SERVER) -> ActionPin:
    """Return the pin of ``owner/name@tag``. Raises ProfileError and GatherError."""
    name, _, tag = wanted.partition("@")
    if not NAME.fullmatch(name) or not TAG.fullmatch(tag):
        raise ProfileError(
            f"ci pin: {wanted!r:.100} is not ACTION@TAG, such as actions/checkout@v4.2.2"
        )
    tags = list_tags(name, server)
    if tag not in tags:
        close = get_close_matches(tag, tags, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ProfileError(f"ci pin: {name} has no tag {tag}{hint}")
    return ActionPin(name=name, commit=tags[tag], tag=tag)


def list_moved(pins: Sequence[ActionPin], server: str = SERVER) -> Iterator[str]:
    """Yield a line for each pin whose tag was moved or deleted. Raises GatherError."""
    for pin in pins:
        commit = list_tags(pin.name, server).get(pin.tag, "")
        if commit != pin.commit:
            now = f"is {commit} now" if commit else "is gone"
            yield f"{pin.name}: {pin.tag} {now}, and pinned as {pin.commit}"


def list_tags(name: str, server: str = SERVER) -> Mapping[str, str]:
    """Return tag -> commit for an action's repository. Raises GatherError."""
    if not server.startswith(("https://", "file://")):
        raise ProfileError(f"ci pin: --server: {server!r:.100} is not an https:// or file:// URL")
    repository = "/".join(name.split("/")[:2])
    url = f"{server.rstrip('/')}/{repository}"
    found: dict[str, str] = {}
    for line in _ask(url).splitlines():
        commit, _, reference = line.partition("\t")
        tag = reference.removeprefix("refs/tags/")
        if not COMMIT.fullmatch(commit) or not TAG.fullmatch(tag.removesuffix(_PEELED)):
            continue
        if tag.endswith(_PEELED):
            found[tag.removesuffix(_PEELED)] = commit
        else:
            found.setdefault(tag, commit)
    return found


def _ask(url: str) -> str:
    """Return git's list of the repository's tags."""
    environment = {
        **os.environ,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "https:file",
        "LC_ALL": "C",
    }
    try:
        ended = subprocess.run(
            ["git", "ls-remote", "--tags", "--", url],  # noqa: S607
            capture_output=True,
            env=environment,
            timeout=_PATIENCE,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise GatherError("ci pin: git is not installed") from None
    except subprocess.TimeoutExpired:
        raise GatherError(f"ci pin: {url} did not answer in {_PATIENCE:g} s") from None
    if ended.returncode != 0:
        lines = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GatherError(f"ci pin: {url}: {lines[-1] if lines else 'git failed'}")
    return ended.stdout[:_LARGEST].decode("utf-8", "replace")
