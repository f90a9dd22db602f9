"""Queries of conda channels through py-rattler, in a separate sandboxed process."""

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
from binary_checks.places.processes import find_last_line, name_crash, run_process
from binary_checks.places.sandbox import Sandbox, find_visible
from binary_checks.processes import user_environment
from binary_checks.web.addresses import show

_SCRIPT = Path(__file__).parent / "scripts" / "conda_worker.py"
_CREDENTIALS = ("~/.rattler", "~/.netrc", "$RATTLER_AUTH_FILE", "$NETRC", "$SSL_CERT_FILE")
_OVERRIDES = "CONDA_OVERRIDE_"
"""Prefix of variables that override a virtual package; every tool of conda reads them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelAnswer:
    """The answer of py-rattler: records of packages, or why there are none."""

    version: str = ""  # version of py-rattler
    records: tuple[Mapping[str, Any], ...] = ()
    refused: str = ""  # why the package itself cannot be used
    unsolved: str = ""  # the solver's message if no packages satisfy the requirements


def format_channel(name: str, folder: Path) -> str:
    """Return a channel as py-rattler names it; a folder becomes a ``file:`` URL.

    Raises ProfileError if there is no such channel or folder.
    """
    path = Path(os.path.normpath(folder / name))
    if "://" in name or (not path.is_dir() and re.fullmatch(r"\w[\w.-]*(/[\w.-]+)*", name)):
        return name
    if not path.is_dir():
        raise ProfileError(f"{name}: no such channel or folder")
    return path.as_uri()


def ask_channels(
    task: Mapping[str, Any],
    root: Path,
    *,
    timeout: float,
    sandbox: Sandbox,
    visible: tuple[Path, ...] = (),
) -> ChannelAnswer:
    """Run a task in a py-rattler process that may write only below ``root``.

    Raises Unavailable if py-rattler is not installed, GatherError if py-rattler, the network or a
    channel failed.
    """
    spec = importlib.util.find_spec("rattler")
    if spec is None or spec.origin is None:
        raise Unavailable("it needs py-rattler: install binary-checks[conda]")
    modules = Path(spec.origin).parents[1]
    request_file, answer_file = root / "request.json", root / "answer.json"
    cache = root / "cache"
    cache.mkdir(exist_ok=True)
    request = {"platform": "", "cache": str(cache), "timeout": timeout, "path": [str(modules)]}
    request_file.write_text(json.dumps({**request, **task}), encoding="utf-8")
    python = Path(sys.executable)
    command: tuple[str, ...] = (
        str(python),
        "-I",
        "-B",
        str(_SCRIPT),
        str(request_file),
        str(answer_file),
    )
    if sandbox.holds:
        seen = (*find_visible(python), modules, _SCRIPT, *_find_local(task), *visible)
        limits = Limits(visible=seen, writable=(root,), network=True)
        command = sandbox.start(command, limits)[0]
    overrides = {k: v for k, v in user_environment().items() if k.startswith(_OVERRIDES)}
    environment = {**make_installer_environment(root), **overrides}
    ended = run_process(command, cwd=root, env=environment, timeout=timeout)
    if ended.status is None:
        raise GatherError(f"py-rattler took longer than {timeout:g} s")
    try:
        answer = json.loads(answer_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        how = name_crash(ended.status) or f"exit status {ended.status}"
        last = find_last_line(ended.stderr, ended.status)
        raise GatherError(f"py-rattler broke ({how}): {last}") from None
    try:
        return _read(answer)
    except GatherError as error:
        raise GatherError(_name_channels(str(error), task.get("channels", ()))) from None


def _name_channels(message: str, channels: Sequence[str]) -> str:
    """Prefix a message with the names of the queried channels, unless it already contains one."""
    shown = [show(each) if "://" in each else each for each in channels]
    if not shown or any(each.rstrip("/") in message for each in shown):
        return message
    return f"{' or '.join(shown)}: {message}"


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
    """Yield the channels and credentials on this host that the sandboxed process reads."""
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
