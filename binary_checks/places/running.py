"""Probes: a script runs in one process of the target interpreter, and its answer is read."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path

import packaging
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, parse_tag, platform_tags

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Conditions, Ending, ProbeAnswer, TargetPython, Wheel
from binary_checks.places.image_table import ARCHITECTURES
from binary_checks.places.limits import Limits, limit_forks
from binary_checks.places.processes import (
    DISCONNECTED,
    Conversation,
    ProcessResult,
    name_crash,
    run_process,
)
from binary_checks.places.sandbox import Sandbox, find_visible
from binary_checks.safe_text import cut, one_line

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
    """Run a probe's script with a request, in a clean environment and an empty folder.

    Our ``process.py`` runs the script. The limits in ``sandbox`` apply even if this host has no
    sandbox.

    If the process ends badly, the answer says how. Raises GatherError if the process could not be
    started.
    """
    conditions, sandbox = conditions or Conditions(), sandbox or Sandbox()
    if not os.access(python, os.X_OK):
        raise GatherError(f"{python}: cannot be run: there is no such program")
    probes = resources.files("binary_checks.probes")
    with resources.as_file(probes) as folder:
        path = script.absolute() if isinstance(script, Path) else folder / script / "script.py"
        alone = () if conditions.site else ("-S",)
        asked = sandbox.holds and sandbox.limits.asks_python
        led = conditions.variables.get("LD_LIBRARY_PATH", "").split(":")
        visible = (
            *(find_visible(python) if asked else ()),
            *(folder, path, *sandbox.limits.visible),
            *map(Path, filter(None, led)),
        )
        return run_command(
            (str(python), *alone, *OPTIONS, str(folder / "process.py"), str(path)),
            request,
            timeout=timeout,
            sandbox=replace(sandbox, limits=replace(sandbox.limits, visible=visible)),
            conditions=conditions,
        )


def run_command(
    command: tuple[str, ...],
    request: Mapping[str, object],
    *,
    timeout: float,
    sandbox: Sandbox,
    conditions: Conditions,
) -> ProbeAnswer:
    """Run the command of a probe in an empty folder, and converse with it.

    Raises GatherError if the process could not be started.
    """
    with tempfile.TemporaryDirectory(
        prefix="binary_checks-", ignore_cleanup_errors=True
    ) as private:
        limits = replace(
            sandbox.limits,
            private=Path(private).resolve(),
            gpu=conditions.gpu,
            services=conditions.services,
        )
        limits.home.mkdir()
        limits.empty.mkdir()
        # Without site only the interpreter runs, which needs no supervision, unless the probe uses
        # GPUs, whose devices the sandbox must show.
        confined = conditions.site or conditions.gpu
        argv, watch = sandbox.start(command, limits) if confined else (command, None)
        own = limit(conditions, limits, timeout)
        ended = run_process(
            argv,
            cwd=limits.empty,
            env={**make_environment(limits.home), **conditions.variables},
            timeout=timeout,
            calls=conditions.calls,
            talk=Conversation({**request, **own}, conditions.stages),
            watch=watch,
        )
    return judge_end(replace(ended, status=sandbox.read_status(ended.status)), timeout)


def limit(conditions: Conditions, limits: Limits, timeout: float) -> dict[str, object]:
    """Return the part of the request with the limits that the probe sets for its own process."""
    bounds = {
        "CORE": 0,
        "FSIZE": limits.shared or limits.disk,
        "DATA": conditions.memory,
        **limit_forks(limits),
    }
    return {
        "limits": {name: most for name, most in bounds.items() if most or name == "CORE"},
        "stacks_after": max(timeout - 1, timeout / 2),
    }


def make_environment(home: Path) -> dict[str, str]:
    """Return the environment of a probe: a separate home folder, and no variables of the user."""
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


def judge_end(ended: ProcessResult, timeout: float) -> ProbeAnswer:
    """Return how a probe ended, given how its process ended and the conversation."""
    outcome, detail = Ending.OK, ""
    aborted = _FATAL.search(ended.stderr) is not None
    if ended.exceeded:
        outcome, detail = Ending.STOPPED, ended.exceeded
    elif ended.status is None:
        outcome, detail = Ending.HUNG, f"{ended.limit or timeout:g} s"
    elif crash := name_crash(ended.status):
        outcome, detail = Ending.CRASHED, crash
    elif ended.status != 0:
        # abort() on Windows exits with 3; only faulthandler's text distinguishes it from
        # sys.exit(3).
        outcome = Ending.CRASHED if aborted else Ending.EXITED
        detail = f"exit status {ended.status}"
        if ended.status == DISCONNECTED and not ended.messages.finished:
            detail = "it closed descriptors that it does not own"
    elif not ended.messages.ended:
        outcome, detail = Ending.EXITED, "exit status 0"
    return ProbeAnswer(
        answer=ended.messages.answer,
        outcome=outcome,
        detail=detail,
        places=() if outcome is Ending.OK else find_places(ended.stderr),
        calls=ended.calls,
        stderr=ended.stderr,
    )


def find_places(stderr: str) -> tuple[str, ...]:
    """Return the stack that faulthandler printed as "FILE:LINE in NAME", innermost first."""
    start = max(*map(stderr.rfind, _HEADINGS), 0)
    current = stderr.find("Current thread", start)
    stack = stderr[max(current, start) :].partition("\n\n")[0]
    return tuple(f"{m['file']}:{m['line']} in {m['name']}" for m in _FRAME.finditer(stack))


# The interpreter in which probes run.


def identify(
    python: Path, *, timeout: float, sandbox: Sandbox | None = None, site: bool = True
) -> TargetPython:
    """Identify an interpreter.

    Without ``site`` only the interpreter itself runs: no ``.pth`` file and no sitecustomize. Raises
    GatherError if the interpreter does not answer; then it can run no probe.
    """
    # The target interpreter computes the tags, since its libc and ABI matter. It imports the
    # packaging that is installed in this environment.
    folder = Path(packaging.__file__).parent
    sandbox = sandbox or Sandbox()
    limits = replace(sandbox.limits, visible=(folder, *sandbox.limits.visible))
    result = run_probe(
        python,
        "identify",
        {"packaging": str(folder)},
        timeout=timeout,
        sandbox=replace(sandbox, limits=limits),
        conditions=Conditions(site=site),
    )
    if reason := explain_silence(result):
        raise GatherError(f"{python}: not a Python 3.8 or later that runs here: {reason}")
    return read_target(python, result.answer)


def explain_silence(result: ProbeAnswer) -> str:
    """Return why a probe about the interpreter gave no answer; "" if it gave one."""
    if result.outcome is Ending.OK and result.answer:
        return ""
    ended = " ".join((result.outcome.value, result.detail))
    return result.stderr.strip().rpartition("\n")[2] or ended


def read_target(python: Path, answer: Mapping[str, object]) -> TargetPython:
    """Turn the answer of the identify probe into a `TargetPython`.

    Raises GatherError if a value is missing.
    """
    try:
        version, tags = str(answer["version"]), answer["tags"]
        paths, machine = answer["paths"], str(answer["machine"]).lower()
        if not isinstance(paths, dict) or "platlib" not in paths:
            raise KeyError("paths")
        texts = map(str, _list(tags))
        ranked = tuple(tag for text in texts for tag in parse_tag(text))
        if tags is None:
            ranked = tuple(_guess_tags(version))
        return TargetPython(
            executable=python,
            implementation=str(answer["implementation"]),
            version=version,
            free_threaded=bool(answer["free_threaded"]),
            platform=str(answer["platform"]),
            architecture=ARCHITECTURES.get(machine, machine),
            libc=str(answer["libc"]),
            operating_system=cut(one_line(str(answer.get("operating_system", ""))), 100),
            extension_suffixes=tuple(map(str, _list(answer["extension_suffixes"]))),
            paths={str(key): str(value) for key, value in paths.items()},
            prefix=str(answer["prefix"]),
            ranked_tags=ranked,
            tags=frozenset(ranked),
        )
    except KeyError as error:
        raise GatherError(f"{python}: does not report its {error.args[0]}") from error


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _guess_tags(version: str) -> Iterator[Tag]:
    """Yield tags, for this host's platform, of a CPython that is too old for ``packaging``."""
    python = tuple(int(part) for part in version.split(".")[:2])
    platforms = list(platform_tags())
    nodot = "".join(map(str, python))
    yield from cpython_tags(python, [f"cp{nodot}"], platforms)
    yield from compatible_tags(python, f"cp{nodot}", platforms)


def require_fit(wheel: Wheel, target: TargetPython) -> None:
    """Raise Unavailable if the interpreter does not accept the wheel."""
    if wheel.tags and target.tags.isdisjoint(wheel.tags):
        if advice := _explain_system(wheel.tags, target):
            raise Unavailable(advice)
        place = target.platform.replace("-", " ")
        # the libc matters only if the wheel is for this architecture
        ending = place.rpartition(" ")[2]
        platforms = {tag.platform for tag in wheel.tags}
        close = any("linux" in each and each.endswith(ending) for each in platforms)
        place = f"{place} with {target.libc}" if close and target.libc else place
        label = format_tags(wheel.tags)
        raise Unavailable(f"the wheel is for {label}, the interpreter is {target.name} on {place}")
    wanted = wheel.header("Requires-Python")
    try:
        fits = not wanted or SpecifierSet(wanted).contains(target.version, prereleases=True)
    except ValueError:  # an invalid version, or one of thousands of digits
        return  # the installer reports the fault
    if not fits:
        raise Unavailable(f"the wheel requires Python {wanted}, the interpreter is {target.name}")


_APPS = {"android": "Android", "ios": "iOS"}
_WEBASSEMBLY = {"pyemscripten", "pyodide", "emscripten"}


def _explain_system(tags: Iterable[Tag], target: TargetPython) -> str:
    """Explain that no interpreter of this host runs the system of the tags; "" if one may."""
    systems = {tag.platform.partition("_")[0] for tag in tags}
    if systems <= _APPS.keys():
        names = " and ".join(_APPS[each] for each in sorted(systems))
        return f"a wheel for {names} is judged statically only: no place runs it"
    if systems <= _WEBASSEMBLY and target.architecture != "wasm32":
        return "only Pyodide runs the wheel: --binary-place pyodide"
    return ""


def format_tags(tags: Iterable[Tag]) -> str:
    """Format the first tags, and the number of the remaining tags."""
    first, *more = sorted(map(str, tags))
    return f"{first} (and {len(more)} more)" if more else first
