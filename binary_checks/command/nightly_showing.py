"""``binary-checks nightly show``: how a cell's night ended, or what a night's runs printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress

from binary_checks.command import SubcommandParser, complain, suggest
from binary_checks.errors import ProfileError, StoreError
from binary_checks.fleet.causes.cause_rules import load_causes
from binary_checks.fleet.night import LETTERS, Attempt, CellEnd, NightPlan, PlannedCell, final_state
from binary_checks.fleet.nights import read_closed, read_coordinator_logs, rerun_command
from binary_checks.fleet.store import Store, closed_name, frozen_name, open_store
from binary_checks.fleet.stored_nights import (
    NightAttempts,
    choose_night,
    find_cell_facts,
    name_log,
    read_frozen,
    require_plan,
)
from binary_checks.model import CellState, RunResult
from binary_checks.reports.verdict_texts import count
from binary_checks.safe_text import cut, one_line

# ``binary-checks nightly show [CELL]``: how a cell's night ended, why, and how to reproduce it; or,
# without a cell, the logs of the coordinators that ran the night.

_SHOW = (
    "Show how a cell's night ended, and the command that reruns it. Without a cell, show what each "
    "`nightly run` of the night printed."
)
_SHOWN_PROBLEMS, _SHOWN_LOG, _SHOWN_RUN = 20, 20, 500  # lines


def run_show(arguments: Sequence[str]) -> int:
    """Show a cell; return the exit status."""
    parser = SubcommandParser(prog="binary-checks nightly show", description=_SHOW)
    parser.add_argument(
        "cell",
        nargs="?",
        default="",
        metavar="CELL",
        help="the cell's id, as `binary-checks cells` prints it (default: the night itself)",
    )
    parser.add_store()
    parser.add_date()
    options = parser.parse_args(arguments)
    store = open_store(options.store)
    night = choose_night(store, options.date)
    plan = require_plan(store, night)
    broken: list[str] = []
    if options.cell:
        planned = find_cell(plan, options.cell)
        end = final_state(planned, NightAttempts(store, night).read(planned.cell.id, broken))
        lines = _describe(store, plan, planned, end)
    else:
        lines = _describe_runs(store, plan, broken)
    for line in lines:
        print(cut(one_line(line), 2_000))
    for each in broken:
        complain(f"nightly show: {each}")
    return 0


def _describe_runs(store: Store, plan: NightPlan, broken: list[str]) -> Iterator[str]:
    """Yield the ends of the logs of the night's coordinators."""
    closed = read_closed(store, plan.night)
    ended = f"closed {closed.closed}" if closed else "not closed yet"
    yield f"{plan.night}: {count(len(plan.cells), 'cell')}, planned {plan.made}, {ended}"
    logs = [*read_coordinator_logs(store, plan.night, broken)]
    for name, lines in logs:
        yield f"  log      {name}"
        if len(lines) > _SHOWN_RUN:
            yield f"    ({len(lines) - _SHOWN_RUN:,} earlier lines)"
        yield from (f"    {line}" for line in lines[-_SHOWN_RUN:])
    if not logs:
        yield "  no run of this night left a log"


def find_cell(plan: NightPlan, name: str) -> PlannedCell:
    """Return the cell with this id. Raises ProfileError if the night has none."""
    known = {each.cell.id: each for each in plan.cells}
    if name not in known:
        raise ProfileError(f"{plan.night} has no cell {name}{suggest(name, known)}")
    return known[name]


def _describe(store: Store, plan: NightPlan, planned: PlannedCell, end: CellEnd) -> Iterator[str]:
    how = f"{LETTERS[end.state]} {planned.cell.id}  {plan.night}: {end.state.value}{_explain(end)}"
    if end.unrun and store.read(closed_name(plan.night)) is None:
        how = f"{planned.cell.id}  {plan.night}: not run yet"
    yield how
    if planned.file_name:
        yield f"  package  {planned.file_name}  ({planned.size:,} bytes, sha256 {planned.sha256})"
        yield f"  from     {planned.url}"
    for each in end.attempts:
        yield f"  {each.stage}{each.number}     {_describe_attempt(each)}"
    named = plan.causes_sha256
    own = read_frozen(store, frozen_name(plan.night, named)) if named else None
    if advice := load_causes(own, "the night's causes").advice_on(end.cause):
        yield f"  do       {advice}"
    for each in end.last.values():
        yield from _list_problems(each.result)
        if each.result is None:  # a result says more than the log
            yield from _show_log(store, each)
    result = next((each.result for each in end.last.values()), None)
    if end.state is CellState.FAILED and end.last:
        with suppress(StoreError):  # no earlier night is good
            find_cell_facts(store, planned.cell.id, before=plan.night)
            sides = (f"store:{planned.cell.id}", f"store:{planned.cell.id}@{plan.night}")
            compared = shlex.join(("binary-checks", "diff", *sides, "--store", store.url))
            yield f"  diff     {compared}"
    if again := rerun_command(plan, planned, store.url, result):
        yield f"  again    {again}"


def _explain(end: CellEnd) -> str:
    cause = f" ({end.cause}, {end.cause_kind})" if end.cause else ""
    reason = end.reason or end.evidence
    return f"{cause}: {reason}" if reason else cause


def _describe_attempt(attempt: Attempt) -> str:
    megabytes = attempt.peak_memory / 1e6
    systems = dict.fromkeys(name for each in attempt.packages for name in each.operating_systems)
    within = f" ({', '.join(systems)})" if systems else ""
    return (
        f"{attempt.state.value}, {attempt.ending}, {attempt.seconds:.1f} s "
        f"({attempt.cpu_seconds:.1f} s of CPU, {megabytes:,.0f} MB) on "
        f"{attempt.host or 'an unknown host'}{within}, {attempt.started}"
    )


def _list_problems(result: RunResult | None) -> Iterator[str]:
    """Yield the cell's problems and warnings as in every report."""
    entries = [entry for _, entry in result.entries()] if result else []
    found = [("", entry, problem) for entry in entries for problem in entry.problems]
    found += [("warning: ", entry, problem) for entry in entries for problem in entry.warnings]
    for prefix, entry, problem in found[:_SHOWN_PROBLEMS]:
        parts = (entry.check, problem.path, problem.sentence)
        yield f"  {prefix}{': '.join(filter(None, parts))}"
    if len(found) > _SHOWN_PROBLEMS:
        yield f"  and {len(found) - _SHOWN_PROBLEMS} more"


def _show_log(store: Store, attempt: Attempt) -> Iterator[str]:
    """Yield the end of an attempt's log."""
    name = name_log(attempt)
    content = store.read(name) if name else None
    if content is not None:
        yield f"  log      {name}"
        lines = content.decode("utf-8", "replace").splitlines()
        yield from (f"    {line}" for line in lines[-_SHOWN_LOG:])
