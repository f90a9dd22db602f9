"""Runs one probe script in one process of the target interpreter, and reads its answer."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

from binary_checks.errors import GatherError
from binary_checks.model import Ending
from binary_checks.model.places import Conditions, ProbeAnswer
from binary_checks.places.conversation import LOST, Conversation
from binary_checks.places.limits import Limits, bound_forks
from binary_checks.places.processes import Ended, name_crash, run_process
from binary_checks.places.sandbox import Sandbox
from binary_checks.places.visible import find_visible

OPTIONS = ("-I", "-B", "-X", "faulthandler")
_FATAL = re.compile(r"^Fatal Python error: .*", re.MULTILINE)
_HEADINGS = ("Fatal Python error: ", "Windows fatal exception: ", "Timeout (")
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<name>.+)$', re.MULTILINE)


def run_probe(  # noqa: PLR0913 - what is run, and under what
    python: Path,
    script: str | Path,
    request: Mapping[str, object],
    *,
    timeout: float,
    sandbox: Sandbox | None = None,
    conditions: Conditions | None = None,
) -> ProbeAnswer:
    """Run the script of a probe with the request, in a clean environment and an empty folder.

    One that is not ours, given by its path, has the path of our ``process.py`` as its argument.
    It has the limits of the sandbox, also where none holds.

    However badly the process ends, that is an answer; GatherError says that it could not be
    started.
    """
    conditions, sandbox = conditions or Conditions(), sandbox or Sandbox()
    if not os.access(python, os.X_OK):
        raise GatherError(f"{python}: cannot be run: there is no such program")
    probes = resources.files("binary_checks.probes")
    with (
        tempfile.TemporaryDirectory(prefix="binary_checks-", ignore_cleanup_errors=True) as private,
        resources.as_file(probes) as folder,
    ):
        given = (script.absolute(),) if isinstance(script, Path) else ()
        words = (*given, folder / "process.py") if given else (folder / script / "script.py",)
        alone = () if conditions.site else ("-S",)
        command = (str(python), *alone, *OPTIONS, *map(str, words))
        asked = sandbox.holds and sandbox.limits.asks_python
        led = conditions.variables.get("LD_LIBRARY_PATH", "").split(":")
        limits = replace(
            sandbox.limits,
            visible=(
                *(find_visible(python) if asked else ()),
                *(folder, *given, *sandbox.limits.visible),
                *map(Path, filter(None, led)),
            ),
            private=Path(private).resolve(),
            gpu=conditions.gpu,
            services=conditions.services,
        )
        limits.home.mkdir()
        limits.empty.mkdir()
        # Without site nothing runs but the interpreter, which needs nobody that looks after it;
        # but devices are asked for where work on them is to run.
        confined = conditions.site or conditions.gpu
        argv, watch = sandbox.start(command, limits) if confined else (command, None)
        own = limit(conditions, limits, timeout)
        try:
            ended = run_process(
                argv,
                cwd=limits.empty,
                env={**make_environment(limits.home), **conditions.variables},
                timeout=timeout,
                calls=conditions.calls,
                talk=Conversation({**request, **own}, conditions.stages),
                watch=watch,
            )
        except OSError as error:
            raise GatherError(f"{python}: cannot be run: {error.strerror or error}") from error
    return judge_end(replace(ended, status=sandbox.read_status(ended.status)), timeout)


def limit(conditions: Conditions, limits: Limits, timeout: float) -> dict[str, object]:
    """Say what the probe is to take on itself."""
    bounds = {
        "CORE": 0,
        "FSIZE": limits.shared or limits.disk,
        "DATA": conditions.memory,
        **bound_forks(limits),
    }
    return {
        "limits": {name: most for name, most in bounds.items() if most or name == "CORE"},
        "stacks_after": max(timeout - 1, timeout / 2),
    }


def make_environment(home: Path) -> dict[str, str]:
    """Make the environment of a probe: nothing of the user's, a home of its own, system folders."""
    if os.name == "nt":
        system = os.environ.get("SYSTEMROOT", r"C:\Windows")
        return {
            "SYSTEMROOT": system,
            "PATH": rf"{system}\System32;{system}",
            **dict.fromkeys(("TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA"), str(home)),
        }
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LC_ALL": "C.UTF-8",
        **dict.fromkeys(("HOME", "TMPDIR"), str(home)),
    }


def judge_end(ended: Ended, timeout: float) -> ProbeAnswer:
    """Say how a probe ended, of which a conversation was heard."""
    outcome, detail = Ending.OK, ""
    aborted = _FATAL.search(ended.stderr) is not None
    if ended.exceeded:
        outcome, detail = Ending.STOPPED, ended.exceeded
    elif ended.status is None:
        outcome, detail = Ending.HUNG, f"{ended.limit or timeout:g} s"
    elif crash := name_crash(ended.status):
        outcome, detail = Ending.CRASHED, crash
    elif ended.status != 0:
        # abort() on Windows exits with 3; only faulthandler's text tells it from sys.exit(3).
        outcome = Ending.CRASHED if aborted else Ending.EXITED
        detail = f"exit status {ended.status}"
        if ended.status == LOST and not ended.heard.finished:
            detail = "it closed descriptors that are not its own"
    elif not ended.heard.ended:
        outcome, detail = Ending.EXITED, "exit status 0"
    return ProbeAnswer(
        answer=ended.heard.answer,
        outcome=outcome,
        detail=detail,
        places=() if outcome is Ending.OK else find_places(ended.stderr),
        calls=ended.calls,
        stderr=ended.stderr,
    )


def find_places(stderr: str) -> tuple[str, ...]:
    """Find the lines of the stack that faulthandler wrote: "FILE:LINE in NAME", innermost first."""
    start = max(*map(stderr.rfind, _HEADINGS), 0)
    current = stderr.find("Current thread", start)
    stack = stderr[max(current, start) :].partition("\n\n")[0]
    return tuple(f"{m['file']}:{m['line']} in {m['name']}" for m in _FRAME.finditer(stack))
