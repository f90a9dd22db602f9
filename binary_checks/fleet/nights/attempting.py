"""One attempt: run `binary-checks` as a process, and store how it ended.

Threads of this host and workers of a cluster run the same function, because the task contains
everything needed. The attempt's document is written last. Nothing counts without the document, so
that an attempt may be killed at any moment.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from binary_checks.documents.json_values import dump
from binary_checks.documents.result import read_results
from binary_checks.errors import (
    EMPTY,
    EXIT_CODES,
    FIT,
    INTERRUPTED,
    MISUSED,
    OUR_BUG,
    TRY_AGAIN,
    ProfileError,
    RecordError,
    StoreError,
)
from binary_checks.fleet.causes.cause_rules import INFRA, UNKNOWN, Causes, load_causes
from binary_checks.fleet.causes.naming_causes import Cause, name_cause
from binary_checks.fleet.night import CPU, GOOD, GPU, Attempt, NightPlan, PlannedCell, ProcessEnd
from binary_checks.fleet.nights.attempt_process import StoppedError, StopRequest, run_command
from binary_checks.fleet.nights.cell_commands import command_of, fetch_inputs, options_of_gpu
from binary_checks.fleet.store import (
    Store,
    facts_name,
    frozen_name,
    result_name,
    running_name,
)
from binary_checks.fleet.store.kept_facts import find_facts, keep_facts, open_facts
from binary_checks.fleet.stored_nights import (
    make_unreadable_attempt,
    name_log,
    now,
    read_frozen,
    read_stored_attempt,
    write_attempt,
)
from binary_checks.model import CellState, Outcome, PackageResult, RunResult, choose_cell_state
from binary_checks.processes import SAFE_PATH
from binary_checks.safe_text import cut, one_line

_RESULT, _FACTS, _GIVEN_FACTS = "result.json", "facts.json", "given-facts.json.gz"
"""Files that the process reads or writes in its folder."""
_PROGRAM = (sys.executable, SAFE_PATH, "-m", "binary_checks")
_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")
"""Prefixes of variables that give access to object stores, which a cell must not have."""
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptTask:
    """The description of an attempt, with everything that any host needs besides the store."""

    plan: NightPlan  # without its cells, of which there may be hundreds
    planned: PlannedCell
    stage: str = CPU
    number: int = 1  # of its stage, counted from 1
    facts: str = ""  # SHA-256 of stored facts to use instead of reading the objects
    engine: str = "local"
    program: tuple[str, ...] = ()  # used instead of `binary-checks` of this installation
    pauses: tuple[float, ...] = (1.0, 5.0, 25.0)  # seconds between tries to reach the store

    @property
    def name(self) -> str:
        """The attempt's name in logs and messages."""
        return f"{self.planned.cell.id}.{self.stage}{self.number}"

    @property
    def about(self) -> tuple[str, str, int]:
        """The cell, the stage and the number, by which the store names the attempt's objects."""
        return self.planned.cell.id, self.stage, self.number


def run_attempt(
    task: AttemptTask,
    store: Store,
    stop: StopRequest | None = None,
    *,
    folder: str = "",
    device: str = "",
) -> Attempt:
    """Run the attempt and store its document, or return the one already stored.

    It makes its own folder in ``folder``, or where temporary files are. ``device`` is the only GPU
    that it may use, as CUDA names it; "" is any. Raises StoppedError if it was ended from outside,
    StoreError if the store fails for longer than the task's pauses, and OSError if this host has no
    room for a folder.
    """
    stop = stop or StopRequest()
    if there := _retry(task, lambda: find_attempt(store, task)):
        return there
    if stop.made:
        raise StoppedError(f"{task.name}: cancelled before it started")
    own = Path(tempfile.mkdtemp(prefix=f"{task.stage}{task.number}-", dir=folder or None))
    try:
        return _run_in(own, task, store, stop, device)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def find_attempt(store: Store, task: AttemptTask) -> Attempt | None:
    """Return the stored attempt of a task, or None if none is stored."""
    return find_stored_attempt(store, task.plan.night, task.about, task.planned.sha256)


def find_stored_attempt(
    store: Store, night: str, about: tuple[str, str, int], sha256: str
) -> Attempt | None:
    """Return the attempt stored for a cell, a stage and a number, or None if none is stored.

    If it cannot be read, return it as a lost attempt at the bytes with that hash.
    """
    name = result_name(night, *about)
    content = store.read(name)
    if content is None:
        return None
    try:
        return read_stored_attempt(content, name)
    except RecordError as error:
        return make_unreadable_attempt(name, night, sha256, error)


def make_lost_attempt(task: AttemptTask, reason: str) -> Attempt:
    """Return the attempt as lost, with the reason."""
    return Attempt(
        night=task.plan.night,
        cell=task.planned.cell.id,
        stage=task.stage,
        number=task.number,
        state=CellState.LOST,
        reason=cut(one_line(reason)),
        cause=UNKNOWN,
        cause_kind=UNKNOWN,
        again=True,
        started=now(),
        seconds=0.0,
        host=socket.gethostname(),
        engine=task.engine,
        sha256=task.planned.sha256,
    )


def record(
    store: Store,
    task: AttemptTask,
    attempt: Attempt,
    log: bytes | None = None,
    facts: Path | None = None,
) -> Attempt:
    """Store an attempt's facts, log and document, the document last; return the valid attempt.

    If another process stored the same attempt meanwhile, its attempt counts. A document contains
    the SHA-256 of its log, so that it never stands next to the log of another attempt.
    """
    if there := find_attempt(store, task):
        return there
    if log is not None:
        kept = _keep_facts(store, task, attempt, facts)
        attempt = replace(attempt, facts=kept, log=hashlib.sha256(log).hexdigest())
        store.create(name_log(attempt), log)
    if store.create(result_name(task.plan.night, *task.about), write_attempt(attempt)):
        return attempt
    counts = find_attempt(store, task) or attempt
    if attempt.log and name_log(counts) != name_log(attempt):
        store.delete(name_log(attempt))
    return counts


def _keep_facts(store: Store, task: AttemptTask, attempt: Attempt, facts: Path | None) -> str:
    """Return the SHA-256 under which the store has the package's facts, or "".

    ``facts`` is the file to store, or None if the store has them already.
    """
    sha256 = task.planned.sha256
    if facts is None:
        return sha256 if attempt.result is not None else ""
    # no facts: the process was killed, or found no package
    with contextlib.suppress(RecordError):
        keep_facts(store, sha256, facts)
        return sha256
    return ""


def _run_in(
    folder: Path, task: AttemptTask, store: Store, stop: StopRequest, device: str
) -> Attempt:
    started = now()
    sha256 = task.planned.sha256
    lacks = _retry(task, lambda: find_facts(store, sha256)) != facts_name(sha256)
    # This version would reject facts that another version wrote.
    facts = "" if lacks else task.facts
    command = command_of(task.plan, task.planned)
    arguments = _complete(task, command.arguments, given=bool(facts), kept=lacks)
    _retry(task, lambda: fetch_inputs(store, command, folder))
    if facts:
        _retry(task, lambda: _fetch_facts(store, facts, folder / _GIVEN_FACTS))
    causes = _retry(task, lambda: _read_causes(store, task))
    with _marked(store, task) as began:
        end, log = run_command(
            [*(task.program or _PROGRAM), *arguments],
            folder=folder,
            environment=_make_environment(folder, device),
            timeout=task.planned.cell.timeout,
            stop=stop,
            began=began,
        )
        attempt = _describe(task, folder, end, log, causes)
        attempt = replace(attempt, started=started, command=("binary-checks", *arguments))
        own = folder / _FACTS if lacks else None
        return _retry(task, lambda: record(store, task, attempt, log, own))


def _retry(task: AttemptTask, act: Callable[[], _T]) -> _T:
    """Call the function; if the store fails, call it again after each pause."""
    for pause in task.pauses:
        try:
            return act()
        except StoreError:
            time.sleep(pause)
    return act()


def _fetch_facts(store: Store, sha256: str, path: Path) -> None:
    with open_facts(store, sha256) as facts:
        shutil.copyfile(facts, path)


def _read_causes(store: Store, task: AttemptTask) -> Causes | None:
    """Return the project's own causes as frozen in the plan, or None if it has none."""
    sha256 = task.plan.causes_sha256
    if not sha256:
        return None
    name = frozen_name(task.plan.night, sha256)
    return load_causes(read_frozen(store, name), name)


def _complete(
    task: AttemptTask, arguments: tuple[str, ...], *, given: bool, kept: bool
) -> tuple[str, ...]:
    """Return the arguments of the cell and its stage, with options for facts and reports."""
    stage = options_of_gpu(arguments) if task.stage == GPU else arguments
    read = ("--facts", _GIVEN_FACTS) if given else ()
    written = ("--report", f"facts:{_FACTS}") if kept else ()
    # Otherwise each of 400 cells would write to the summary of the job that runs the night.
    quiet = ("--github", "off")
    return (*stage, *read, *quiet, "--report", f"json:{_RESULT}", *written)


def _make_environment(folder: Path, device: str) -> dict[str, str]:
    """Return the cell's environment: a temporary folder of its own, and no keys of the store."""
    temporary = folder / "tmp"
    temporary.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_CREDENTIALS)}
    gpu = {"CUDA_VISIBLE_DEVICES": device} if device else {}
    return {**kept, **gpu, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))}


@contextlib.contextmanager
def _marked(store: Store, task: AttemptTask) -> Iterator[Callable[[int], None]]:
    """Mark the attempt in the store as running on this host, until the block ends."""
    name = running_name(task.plan.night, *task.about)

    def show(pid: int) -> None:
        row = {"host": socket.gethostname(), "pid": pid, "began": now()}
        with contextlib.suppress(StoreError):  # the mark only informs people
            store.delete(name)  # left by an attempt that was killed
            store.create(name, f"{dump(row)}\n".encode("ascii"))

    try:
        yield show
    finally:
        with contextlib.suppress(StoreError):
            store.delete(name)


def _describe(
    task: AttemptTask, folder: Path, end: ProcessEnd, log: bytes, causes: Causes | None
) -> Attempt:
    """Return the attempt as its document records it."""
    run, complaint = _read_result(folder / _RESULT)
    last_line = _find_last_line(log)
    state, reason = decide_state(end, run, task.planned.sha256, complaint, last_line)
    cause = Cause()
    if state not in GOOD:
        cause = name_cause(run, log, end, causes, reason=reason)
    undecided = state in (CellState.FAILED, CellState.NOT_JUDGED) and reason
    if undecided and cause.kind == INFRA:
        # The run found no problem, and the checks that are missing failed because of this host.
        state = CellState.INFRA
    if state is CellState.FAILED and task.plan.known_complaint:
        # Its problems may be known. Without the list, the attempt is neither good nor failed.
        reason = task.plan.known_complaint
        state, cause = CellState.INFRA, Cause(name="known-problems-unavailable", kind=INFRA)
    return replace(
        make_lost_attempt(task, reason or (cause.evidence if state is _LOST else "")),
        state=state,
        cause=cause.name,
        cause_kind=cause.kind,
        evidence=cause.evidence,
        again=may_end_otherwise(state, run, by_cause=cause.again),
        seconds=round(end.seconds, 3),
        cpu_seconds=round(end.cpu_seconds, 3),
        peak_memory=end.peak_memory,
        exit_status=end.exit_status,
        signal=end.signal,
        # The texts of the checks would be most of the document, and the same in each.
        result=None if run is None else replace(run, checks=()),
    )


def _read_result(path: Path) -> tuple[RunResult | None, str]:
    """Return the result, or the reason why there is none."""
    try:
        return read_results(path), ""
    except ProfileError as error:
        return None, str(error)


def _find_last_line(log: bytes) -> str:
    lines = reversed(log.decode("utf-8", "replace").split("\n"))
    return next((cut(one_line(line.strip())) for line in lines if line.strip()), "")


# The state of one attempt, decided from how its process ended and what it wrote.

_LOST, _FAILED, _INFRA = CellState.LOST, CellState.FAILED, CellState.INFRA
_NEEDS_A_PERSON = {  # exit codes that every other attempt would repeat
    OUR_BUG: "`binary-checks` failed",
    MISUSED: "`binary-checks` rejected the cell's options",
    EMPTY: "no check was selected",
}
_Decided = tuple[CellState, str]  # a state, and its reason if nothing else shows it


def decide_state(
    end: ProcessEnd, run: RunResult | None, sha256: str, complaint: str = "", last_line: str = ""
) -> _Decided:
    """Decide the state of one attempt at a package with that hash.

    ``complaint`` says why there is no result, ``last_line`` is that of the log. A process that did
    not end by itself judged nothing, whatever it wrote before: the attempt is lost, and its cause
    says why. It is also lost if the process and its result contradict each other.
    """
    status = end.exit_status
    if end.timed_out or status is None:
        return _LOST, ""
    if status not in EXIT_CODES:
        return _LOST, f"ended with status {status:#x}, which `binary-checks` never returns"
    if run is None:
        return _without_result(status, complaint, last_line)
    if run.exit_code != status:
        state = _INFRA if status == TRY_AGAIN else _LOST
        exits = f"exit code {run.exit_code}, but the process ended with {status}"
        return state, _because(f"its result states {exits}", last_line)
    return _with_result(run, sha256)


def _without_result(status: int, complaint: str, last_line: str) -> _Decided:
    """Decide from only the exit status.

    It may show whose fault a failure is, but it is never enough for a pass.
    """
    if status == TRY_AGAIN:
        return _INFRA, last_line or complaint
    if status in _NEEDS_A_PERSON:
        return _FAILED, _because(_NEEDS_A_PERSON[status], last_line)
    message = "interrupted" if status == INTERRUPTED else f"no result, with exit code {status}"
    return _LOST, _because(message, complaint)


def _because(message: str, why: str) -> str:
    return cut(one_line(f"{message}: {why}" if why else message))


def _with_result(run: RunResult, sha256: str) -> _Decided:
    if len(run.packages) != 1:
        return _LOST, f"its result is about {len(run.packages)} packages instead of one"
    (package,) = run.packages
    accepts = any(entry.accepted for entry in package.entries)
    state = choose_cell_state(run.exit_code, package.verdict, accepts=accepts)
    if state is _INFRA:
        return _INFRA, _explain(run, package)
    if sha256 and package.sha256 and package.sha256 != sha256:
        return _INFRA, f"other bytes than planned: SHA-256 {package.sha256}, and not {sha256}"
    if run.exit_code == FIT and sha256 and not package.sha256:
        return _LOST, "its result does not say which bytes were judged"
    if state is _LOST:
        contradiction = f"its result says {package.verdict.value}, although its exit code is 0"
        return _LOST, "interrupted" if run.exit_code == INTERRUPTED else contradiction
    shown = state in GOOD or any(entry.problems for entry in package.entries)
    return state, "" if shown else _explain(run, package)


def _explain(run: RunResult, package: PackageResult) -> str:
    """Return why a run without problems is not a pass: a check broke or could not judge."""
    failed = (e for e in package.entries if e.outcome in (Outcome.BROKEN, Outcome.ERROR))
    texts = [f"{entry.check}: {entry.reason}" for entry in failed if entry.reason]
    texts += [package.unjudged, package.unrun, *run.complaints, package.stopped]
    return _because(next(filter(None, texts), "") or f"verdict {package.verdict.value}", "")


# Retries: whether a stage of a cell needs another attempt, and when.

MOST = 3
"""The most attempts of a stage, including those that failed for reasons outside the package."""
_MOST_FAILURES = 2
_TIMED_OUT = "timed-out"
_MOST_TIMED_OUT = 2  # a hang mostly repeats, and each takes as long as the limit
_GROWTH = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class NextAttempt:
    """An attempt that is still to be made."""

    number: int
    pause: float = 0.0  # seconds after the last attempt


def may_end_otherwise(state: CellState, result: RunResult | None, *, by_cause: bool) -> bool:
    """Return whether another attempt at the same bytes may end differently.

    Static checks would find the same problems again, so that a failure is repeated only if all
    failed checks run the package. Broken and lost attempts are repeated unless their cause says
    that this is useless.
    """
    if state is not CellState.FAILED or result is None:
        return by_cause and state in (CellState.INFRA, CellState.LOST)
    runs = {check.id for check in result.checks if check.runs_package}
    failed = {entry.check for _, entry in result.entries() if entry.outcome is Outcome.FAILED}
    return bool(failed) and failed <= runs


def plan_next(attempts: Sequence[Attempt], pause: float) -> NextAttempt | None:
    """Return the attempt that follows a stage's attempts so far; None if the stage is complete.

    A failure is repeated once, immediately; broken and lost attempts are repeated after growing
    pauses.
    """
    number = 1 + max((each.number for each in attempts), default=0)
    if not attempts:
        return NextAttempt(number=number)
    last = attempts[-1]
    if not last.again or any(each.state in GOOD for each in attempts) or len(attempts) >= MOST:
        return None
    if sum(each.cause == _TIMED_OUT for each in attempts) >= _MOST_TIMED_OUT:
        return None
    if last.state is CellState.FAILED:
        failures = sum(each.state is CellState.FAILED for each in attempts)
        return NextAttempt(number=number) if failures < _MOST_FAILURES else None
    return NextAttempt(number=number, pause=pause * _GROWTH ** (len(attempts) - 1))
