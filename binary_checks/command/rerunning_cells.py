"""``binary-checks nightly rerun CELL``: judges here the very bytes that the night judged."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from binary_checks.command import SubcommandParser
from binary_checks.command.nightly_showing import find_cell
from binary_checks.errors import ProfileError
from binary_checks.fleet.nights.cell_commands import command_of, fetch_inputs
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import choose_night, demand_plan
from binary_checks.lines import one_line
from binary_checks.processes import SAFE_PATH

_PURPOSE = "Judge here the very bytes that a night judged, with its profile and known problems."


def run(arguments: Sequence[str]) -> int:
    """Rerun a cell; returns the exit status of that run."""
    options, further = _options().parse_known_args(arguments)
    store = open_store(options.store)
    plan = demand_plan(store, choose_night(store, options.date))
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


def _options() -> argparse.ArgumentParser:
    parser = SubcommandParser(
        prog="binary-checks nightly rerun",
        description=_PURPOSE,
        epilog="Further options go to binary-checks: -m linkage, --report html:x.html",
    )
    add = parser.add_argument
    add("cell", metavar="CELL", help="its id, as `binary-checks cells` prints it")
    parser.add_store()
    parser.add_date()
    return parser
