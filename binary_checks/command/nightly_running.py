"""``binary-checks nightly run``, ``collect`` and ``rerun``: a night from plan to tables."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import shlex
import signal
import subprocess
import sys
import tempfile
from argparse import SUPPRESS, Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from binary_checks.command import INTERRUPTED, TRY_AGAIN, SubcommandParser, complain, read_count
from binary_checks.command.cells import add_one_off, ask_one_off, read_matrix
from binary_checks.command.nightly_showing import find_cell
from binary_checks.errors import PROBLEMS, BinaryChecksError, ProfileError
from binary_checks.fleet.cells import DEFAULT_FILE, OneOff, choose_cells
from binary_checks.fleet.night import CPU, GPU, NightPlan, PlannedCell
from binary_checks.fleet.nights import (
    ALL,
    PAUSE,
    ClosedNight,
    Coordinator,
    CoordinatorLog,
    Merged,
    NightOutcome,
    close_night,
    command_of,
    fetch_inputs,
    list_waiting,
    merge_night,
    open_engine,
    read_closed,
)
from binary_checks.fleet.store import Store, closed_name, open_store
from binary_checks.fleet.stored_nights import (
    choose_night,
    find_plan,
    keep_plan,
    list_nights,
    now,
    read_date,
    require_plan,
    tonight,
)
from binary_checks.fleet.tables.collecting import keep_tables, make_tables
from binary_checks.model import CellState
from binary_checks.processes import SAFE_PATH
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import one_line

# ``binary-checks nightly run``: plan a night or continue it, and run the cells without a result.

_NIGHT = "Plan a night, or continue one, and run the cells that have no result yet."
_STATUSES = (
    "exit code: 0 all passed, 1 some failed, 2 interrupted, 4 usage, 6 some could not be judged: "
    "run it again"
)
_FINISHED = frozenset({CellState.PASSED, CellState.KNOWN, CellState.FLAKY, CellState.NOT_JUDGED})
"""States after which nothing is left to run. In contrast to `WELL`, a cell that waits for its GPU
stage is not included.
"""


def run_night(arguments: Sequence[str]) -> int:
    """Run a night; return the exit status."""
    options = _make_parser().parse_args(arguments)
    night = read_date(options.date) if options.date else tonight()
    store = open_store(options.store, make=True)
    if store.read(closed_name(night)) is not None:
        raise ProfileError(
            f"nightly run: {night} is closed and cannot change; --date names another night"
        )
    log = CoordinatorLog(sys.stdout)
    if not options.date:
        _report_open_night(store, night, log)
    one_off = ask_one_off(options)
    plan = _take_plan(store, night, Path(options.cells), log, one_off)
    with _keep(log, store, night):
        if plan.known_complaint:
            log.print_line(f"no problem counts as known this night: {plan.known_complaint}")
        if plan.known_remark:
            log.print_line(f"known problems {plan.known_source}: {plan.known_remark}")
        chosen = _choose(plan, options, one_off)
        if options.plan_only:
            planned = count(len(plan.cells), "cell")
            log.print_line(f"{night} is planned: {planned}, store {store.url}")
            return 0
        outcome = _run_planned(store, plan, chosen, log, options)
        is_whole = len(chosen) == len(plan.cells) and not (outcome.stopped or outcome.waiting)
        collects = is_whole and not options.no_collect
        for line in _describe_outcome(outcome, store, night, collects=collects):
            log.print_line(line)
    if collects:  # once the log is kept: a closed night does not change
        from binary_checks.command.hud import run_summary  # only the coordinator of a whole night

        given = ["--store", store.url, "--date", night]
        if run_collect(given) == 0:
            run_summary(given)
    return _find_status(outcome)


@contextlib.contextmanager
def _keep(log: CoordinatorLog, store: Store, night: str) -> Iterator[None]:
    """Keep the log with the night, whatever happens; the log names an error that is raised."""
    try:
        yield
    except BinaryChecksError as error:
        log.note(str(error))
        raise
    finally:
        try:
            if not log.keep(store, night):
                complain(f"nightly run: {night} is closed; the log of this run is not kept")
        except BinaryChecksError as error:
            complain(f"nightly run: the log of this run is not kept: {error}")


def _run_planned(
    store: Store,
    plan: NightPlan,
    chosen: Sequence[PlannedCell],
    log: CoordinatorLog,
    options: Namespace,
) -> NightOutcome:
    """Run the chosen cells of a plan."""
    with open_engine(options.engine, store, options.jobs, options.gpus) as engine:
        if options.queue == GPU and GPU not in engine.queues:
            raise ProfileError(
                "--queue gpu: no GPU was found on this host; give the number of GPUs with --gpus N"
            )
        coordinator = Coordinator(
            store,
            plan,
            engine,
            log,
            chosen=chosen,
            queue=options.queue,
            pause=options.pause,
            program=options.program,
        )
        with _signals(coordinator.interrupt):
            return coordinator.run()


def _make_parser() -> SubcommandParser:
    parser = SubcommandParser(
        prog="binary-checks nightly run", description=_NIGHT, epilog=_STATUSES
    )
    add = parser.add_argument
    add(
        "cells",
        nargs="?",
        default=DEFAULT_FILE,
        metavar="CELLS.toml",
        help="the matrix (default: cells.toml)",
    )
    parser.add_store()
    add("--date", metavar="DATE", help="the night to start or continue (default: today in UTC)")
    add(
        "-j",
        "--jobs",
        metavar="N",
        type=read_count,
        help="attempts at a time (default: the number of processors)",
    )
    add("--cell", metavar="ID", action="append", default=[], help="only this cell (repeatable)")
    parser.add_where()
    add_one_off(parser)
    add("--shard", metavar="I/N", default="", help="the I-th of N equal parts, as 2/4")
    add("--engine", metavar="ENGINE", default="local", help="local (default), or dask:ADDRESS")
    add("--queue", choices=(CPU, GPU, ALL), default=ALL, help="the stages to run (default: all)")
    add(
        "--gpus",
        metavar="N",
        type=read_count,
        help="GPU attempts at a time (default: the number of NVIDIA GPUs)",
    )
    add("--plan-only", action="store_true", help="plan the night, but run nothing")
    add(
        "--no-collect",
        action="store_true",
        help="leave the night open: another command collects it, as for shards",
    )
    # For tests: a replacement of binary-checks, and the seconds to wait.
    add("--program", type=shlex.split, default=[], help=SUPPRESS)
    add("--pause", type=float, default=PAUSE, help=SUPPRESS)
    return parser


def _report_open_night(store: Store, night: str, log: CoordinatorLog) -> None:
    """Report that the previous night is still open when a new one begins.

    The user may want to continue the previous night after midnight.
    """
    nights = [each for each in list_nights(store) if each <= night]
    if nights and nights[-1] != night and store.read(closed_name(nights[-1])) is None:
        log.print_line(f"{nights[-1]} is not closed; to continue it: --date {nights[-1]}")


def _take_plan(
    store: Store, night: str, path: Path, log: CoordinatorLog, one_off: OneOff
) -> NightPlan:
    """Return the night's plan from the store, or make a plan from the cells file."""
    if (plan := find_plan(store, night)) is None:
        from binary_checks.fleet.nights import make_plan  # a night is planned once

        matrix = one_off.enable(read_matrix(path))
        for warning in matrix.warnings:
            log.print_line(f"warning: {warning}")
        log.print_line(f"planning {night}: {count(len(matrix.cells), 'cell')}")
        made = make_plan(matrix, night)
        return keep_plan(store, made.plan, made.frozen)
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() != plan.cells_sha256:
        log.print_line(
            f"{path.name} differs from the matrix with which {night} was planned: the plan stays; "
            "the next night uses the new matrix"
        )
    return plan


def _choose(plan: NightPlan, options: Namespace, one_off: OneOff) -> list[PlannedCell]:
    """Return the selected planned cells, without cells that the chosen queue does not run."""
    cells = choose_cells(
        [each.cell for each in plan.cells],
        ids=options.cell,
        where=options.where,
        one_off=one_off,
        part=options.shard,
    )
    wanted = {cell.id for cell in cells if cell.gpu or options.queue != GPU}
    return [each for each in plan.cells if each.cell.id in wanted]


@contextlib.contextmanager
def _signals(interrupt: Callable[[], None]) -> Iterator[None]:
    """Let the first signal end the night in an orderly way, and a second one at once."""
    named = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP is sent when the terminal is closed
    found = [getattr(signal, each) for each in named if hasattr(signal, each)]
    # nohup ignores it
    wanted = [each for each in found if signal.getsignal(each) is not signal.SIG_IGN]
    before = [signal.signal(each, lambda *_: interrupt()) for each in wanted]
    try:
        yield
    finally:
        for each, handler in zip(wanted, before, strict=True):
            signal.signal(each, handler)


def _describe_outcome(
    outcome: NightOutcome, store: Store, night: str, *, collects: bool
) -> Iterator[str]:
    """Yield the counts and, unless the night is collected now, the next command."""
    begun = [end for end in outcome.ends.values() if not end.unrun]
    found = Counter(end.state for end in begun)
    texts = [f"{found[state]:,} {state.value}" for state in CellState if found[state]]
    if left := len(outcome.ends) - len(begun):
        texts.append(f"{left:,} not run yet")
    counts = ", ".join(texts)
    yield f"{count(len(outcome.ends), 'cell')}: {counts or 'none'} in {outcome.seconds:,.0f} s"
    if outcome.waiting:
        waiting = count(len(outcome.waiting), "GPU stage")
        yield f"for a host with a GPU (--queue gpu): {waiting}"
    given = f"--date {night} --store {shlex.quote(store.url)}"
    if outcome.stopped:
        yield f"{outcome.stopped}; to continue: binary-checks nightly run {given}"
    elif not collects:
        yield f"next: binary-checks nightly collect {given}"


def _find_status(outcome: NightOutcome) -> int:
    ends = outcome.ends.values()
    states = {end.state for end in ends}
    judged = (end for end in ends if end.state is CellState.NOT_JUDGED)
    # a cell was not judged although its profile requires a verdict
    refused = any(attempt.exit_status for end in judged for attempt in end.last.values())
    if outcome.interrupted:
        return INTERRUPTED
    if refused or CellState.FAILED in states:
        return PROBLEMS
    return 0 if states <= _FINISHED and not outcome.stopped else TRY_AGAIN


# ``binary-checks nightly collect``: merge a night's results, make tables, and close the night.

_COLLECT = "Collect the results of a night, make its tables, and close it."
_STAYS_OPEN = 1
"""Exit status if results are still missing."""


def run_collect(arguments: Sequence[str]) -> int:
    """Collect a night; return the exit status."""
    options = _make_collect_parser().parse_args(arguments)
    store = open_store(options.store)
    night = choose_night(store, options.date)
    if closed := read_closed(store, night):
        print(one_line(f"{night}: closed already, {closed.closed}; nothing in it changes any more"))
        return 0
    merged = merge_night(store, night, options.folders) if options.folders else Merged()
    if merged.attempts or merged.known:
        known = f", {merged.known} known already" if merged.known else ""
        print(f"{night}: {merged.attempts} results merged{known}")
    plan = require_plan(store, night)
    with tempfile.TemporaryDirectory(prefix="binary-checks-") as folder:
        made = make_tables(store, night, Path(folder))
        complaints = (*merged.complaints, *made.complaints)
        for each in complaints:
            complain(f"nightly collect: {each}")
        waiting = list_waiting(plan, made.attempts)
        if waiting and not options.close:
            named = ", ".join(waiting[:3]) + (", …" if len(waiting) > 3 else "")
            complain(
                f"nightly collect: {night}: {len(waiting)} of {len(plan.cells)} cells have no "
                f"result yet ({named}): the night stays open; --close closes it without them"
            )
            return _STAYS_OPEN
        keep_tables(store, made)
    close_night(store, ClosedNight(night=night, closed=now(), complaints=complaints))
    counts = [f"{made.states[state]} {state.value}" for state in CellState if made.states[state]]
    print(f"{night}: closed; {', '.join(counts) or 'no cell'}")
    return 0


def _make_collect_parser() -> argparse.ArgumentParser:
    parser = SubcommandParser(prog="binary-checks nightly collect", description=_COLLECT)
    parser.add_store()
    parser.add_date()
    add = parser.add_argument
    add(
        "--from",
        dest="folders",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="a store in a folder, or a folder of stores, as written by jobs of a CI system: merge "
        "their results for the night that is planned in --store (repeatable)",
    )
    add("--close", action="store_true", help="count cells without a result as lost")
    return parser


# ``binary-checks nightly rerun CELL``: judge, on this machine, the same bytes as the night.

_RERUN = (
    "Judge on this host the same bytes as a night, with the night's profile and known problems."
)


def run_rerun(arguments: Sequence[str]) -> int:
    """Rerun a cell; return the exit status of that run."""
    parser = SubcommandParser(
        prog="binary-checks nightly rerun",
        description=_RERUN,
        epilog="Further options go to binary-checks: -m linkage, --report html:x.html",
    )
    name = "the cell's id, as `binary-checks cells` prints it"
    parser.add_argument("cell", metavar="CELL", help=name)
    parser.add_store()
    parser.add_date()
    options, further = parser.parse_known_args(arguments)
    store = open_store(options.store)
    plan = require_plan(store, choose_night(store, options.date))
    planned = find_cell(plan, options.cell)
    if planned.state is not None:
        raise ProfileError(
            f"nightly rerun: {planned.cell.id}: {planned.state.value}: {planned.reason}: there is "
            "nothing to run"
        )
    command = command_of(plan, planned)
    with tempfile.TemporaryDirectory(prefix="binary-checks-") as folder:
        fetch_inputs(store, command, Path(folder))
        given = {name: str(Path(folder, name)) for name in command.inputs}
        completed = [given.get(each, each) for each in command.arguments]
        files = ", ".join(f"{store.url}/{stored}" for stored in command.inputs.values())
        taken = f", with {files}" if files else ""
        print(one_line(f"{planned.file_name} as of {plan.night}{taken}"), flush=True)
        program = (sys.executable, SAFE_PATH, "-m", "binary_checks")
        return subprocess.run([*program, *completed, *further], check=False).returncode
