"""Asks the repositories of actions which commits their tags stand for, by ``git ls-remote``."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from binary_checks.errors import GatherError, ProfileError
from binary_checks.fleet.ci.action_pins import COMMIT, NAME, TAG, ActionPin

SERVER = "https://github.com"
_PATIENCE = 60.0  # seconds for one repository
_PEELED = "^{}"  # behind a tag that is an object of its own: what it points to
_LARGEST = 16 << 20  # bytes of an answer


def resolve_pin(wanted: str, server: str = SERVER) -> ActionPin:
    """The pin of ``owner/name@tag``. Raises ProfileError, and GatherError if nobody answers."""
    name, _, tag = wanted.partition("@")
    if not NAME.fullmatch(name) or not TAG.fullmatch(tag):
        raise ProfileError(f"ci pin: {wanted!r:.100} is not ACTION@TAG, as actions/checkout@v4.2.2")
    tags = list_tags(name, server)
    if tag not in tags:
        close = get_close_matches(tag, tags, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ProfileError(f"ci pin: {name} has no tag {tag}{hint}")
    return ActionPin(name=name, commit=tags[tag], tag=tag)


def list_moved(pins: Sequence[ActionPin], server: str = SERVER) -> Iterator[str]:
    """A line for each pin whose tag is another commit by now, or is gone. Raises GatherError."""
    for pin in pins:
        commit = list_tags(pin.name, server).get(pin.tag, "")
        if commit != pin.commit:
            now = f"is {commit} now" if commit else "is gone"
            yield f"{pin.name}: {pin.tag} {now}, and pinned as {pin.commit}"


def list_tags(name: str, server: str = SERVER) -> Mapping[str, str]:
    """The commits of all tags of an action's repository. Raises GatherError."""
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
    """What git says of the repository's tags."""
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
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()
        raise GatherError(f"ci pin: {url}: {said[-1] if said else 'git failed'}")
    return ended.stdout[:_LARGEST].decode("utf-8", "replace")
