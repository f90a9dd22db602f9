"""Nights: plan, run in two queues, resume, merge and close them."""

from __future__ import annotations

from binary_checks.fleet.nights.attempt_process import (
    StoppedError,
    StopRequest,
)
from binary_checks.fleet.nights.attempting import (
    AttemptTask,
    NextAttempt,
    decide_state,
    find_attempt,
    may_end_otherwise,
    plan_next,
    run_attempt,
)
from binary_checks.fleet.nights.cell_commands import (
    CellCommand,
    choose_python,
    command_of,
    fetch_inputs,
    find_python,
    options_of,
    options_of_gpu,
    pin_place,
    rerun_command,
)
from binary_checks.fleet.nights.coordinating import (
    ALL,
    PAUSE,
    Coordinator,
    Engine,
    NightOutcome,
    read_attempts,
)
from binary_checks.fleet.nights.coordinator_log import CoordinatorLog, read_coordinator_logs
from binary_checks.fleet.nights.engines import open_engine
from binary_checks.fleet.nights.host_resources import open_host, reserve_device
from binary_checks.fleet.nights.merging import (
    ClosedNight,
    Merged,
    close_night,
    list_waiting,
    merge_night,
    read_closed,
)
from binary_checks.fleet.nights.planning import (
    PreparedNight,
    make_plan,
)

__all__ = [
    "ALL",
    "AttemptTask",
    "CellCommand",
    "ClosedNight",
    "Coordinator",
    "CoordinatorLog",
    "Engine",
    "Merged",
    "NextAttempt",
    "NightOutcome",
    "PAUSE",
    "PreparedNight",
    "StopRequest",
    "StoppedError",
    "choose_python",
    "close_night",
    "command_of",
    "decide_state",
    "fetch_inputs",
    "find_attempt",
    "find_python",
    "list_waiting",
    "make_plan",
    "may_end_otherwise",
    "merge_night",
    "open_engine",
    "open_host",
    "options_of",
    "options_of_gpu",
    "pin_place",
    "plan_next",
    "read_attempts",
    "read_closed",
    "read_coordinator_logs",
    "rerun_command",
    "reserve_device",
    "run_attempt",
]
