"""Asks conda channels through py-rattler, which runs in a process of its own, confined like any."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binary_checks.errors import GatherError, ProfileError, Unavailable
from binary_checks.places.index_settings import make_installer_environment
from binary_checks.places.limits import Limits
from binary_checks.places.processes import name_crash, run_process
from binary_checks.places.sandbox import Sandbox, find_visible
from binary_checks.web.addresses import show
from binary_checks.withheld import user_environment

_SCRIPT = Path(__file__).parent / "scripts" / "conda_worker.py"
_CREDENTIALS = ("~/.rattler", "~/.netrc", "$RATTLER_AUTH_FILE", "$NETRC", "$SSL_CERT_FILE")
_OVERRIDES = "CONDA_OVERRIDE_"
"""What variables begin with that state a virtual package, as every tool of conda's reads them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelAnswer:
    """What py-rattler said: packages, or whose fault it is that there are none."""

    version: str = ""  # its own
    records: tuple[Mapping[str, Any], ...] = ()
    refused: str = ""  # the package's fault
    unsolved: str = ""  # nothing fits what is required


def spell_channel(name: str, folder: Path) -> str:
    """The channel as py-rattler knows it: a folder by its address. Raises ProfileError."""
    path = Path(os.path.normpath(folder / name))
    if "://" in name or (not path.is_dir() and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)*", name)):
        return name
    if not path.is_dir():
        raise ProfileError(f"{name}: no such channel, nor a folder of that name")
    return path.as_uri()


def ask_channels(
    task: Mapping[str, Any],
    root: Path,
    *,
    timeout: float,
    sandbox: Sandbox,
    visible: tuple[Path, ...] = (),
) -> ChannelAnswer:
    """Have it do a task, writing to that folder alone.

    Raises Unavailable where it is not installed, GatherError where it, the network or a channel
    broke.
    """
    spec = importlib.util.find_spec("rattler")
    if spec is None or spec.origin is None:
        raise Unavailable("it needs py-rattler: install binary-checks[conda]")
    modules = Path(spec.origin).parents[1]
    asked, told = root / "request.json", root / "answer.json"
    cache = root / "cache"
    cache.mkdir(exist_ok=True)
    request = {"platform": "", "cache": str(cache), "timeout": timeout, "path": [str(modules)]}
    asked.write_text(json.dumps({**request, **task}), encoding="utf-8")
    python = Path(sys.executable)
    command: tuple[str, ...] = (str(python), "-I", "-B", str(_SCRIPT), str(asked), str(told))
    if sandbox.holds:
        seen = (*find_visible(python), modules, _SCRIPT, *_find_local(task), *visible)
        limits = Limits(visible=seen, writable=(root,), network=True)
        command = sandbox.start(command, limits)[0]
    overrides = {k: v for k, v in user_environment().items() if k.startswith(_OVERRIDES)}
    environment = {**make_installer_environment(root), **overrides}
    try:
        ended = run_process(command, cwd=root, env=environment, timeout=timeout)
    except OSError as error:
        raise GatherError(f"{python}: cannot be run: {error.strerror or error}") from error
    if ended.status is None:
        raise GatherError(f"py-rattler took longer than {timeout:g} s")
    try:
        answer = json.loads(told.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        last = ended.stderr.strip().rpartition("\n")[2]
        how = name_crash(ended.status) or f"exit status {ended.status}"
        raise GatherError(f"py-rattler broke ({how}): {last}") from None
    try:
        return _read(answer)
    except GatherError as error:
        raise GatherError(_name_channels(str(error), task.get("channels", ()))) from None


def _name_channels(said: str, channels: Sequence[str]) -> str:
    """What broke, with the channels that were asked, unless it names one of them already."""
    shown = [show(each) if "://" in each else each for each in channels]
    if not shown or any(each.rstrip("/") in said for each in shown):
        return said
    return f"{' or '.join(shown)}: {said}"


def _read(answer: Mapping[str, Any]) -> ChannelAnswer:
    if lacking := answer.get("lacking"):
        raise Unavailable(f"it needs py-rattler: install binary-checks[conda] ({lacking})")
    if broke := answer.get("broke"):
        raise GatherError(str(broke))
    return ChannelAnswer(
        version=str(answer.get("version", "")),
        records=tuple(answer.get("records", ())),
        refused=str(answer.get("refused", "")),
        unsolved=str(answer.get("unsolved", "")),
    )


def _find_local(task: Mapping[str, Any]) -> Iterator[Path]:
    """What of this host's files a confined one reads: folders of channels, and credentials."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    for channel in task.get("channels", ()):
        if channel.startswith("file:"):
            yield Path(url2pathname(urlsplit(channel).path))
    environ = user_environment()
    for name in _CREDENTIALS:
        path = environ.get(name[1:], "") if name.startswith("$") else str(Path(name).expanduser())
        if path and Path(path).exists():
            yield Path(path)
