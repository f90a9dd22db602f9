"""Nothing that a package starts outlives its probe, and what it signals is not our own process."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from binary_checks.model import Ending
from binary_checks.places.limits import kill_below, list_descendants
from binary_checks.places.processes import run_process
from binary_checks.probes.import_name.reader import import_each
from fixtures.environments import (
    FilledPlace,
    within,
)
from fixtures.slow import slow

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="Linux shows who descends from whom"
)

MARK = f"binary-checks-survivor-{os.getpid()}"
DAEMON = f"""
import os, sys
ready, began = os.pipe()
os.set_inheritable(began, True)
code = "import os, time; os.write(%d, b'x'); os.close(%d); time.sleep(600)" % (began, began)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, {MARK!r}], {{}})
    os._exit(0)
os.read(ready, 1)
"""
MODULES = {
    "good": "",
    "leaves_a_daemon": DAEMON,
    "leaves_a_daemon_and_crashes": f"{DAEMON}\nos.abort()\n",
    "leaves_a_daemon_and_hangs": f"{DAEMON}\nimport time\ntime.sleep(600)\n",
    "terminates_its_parent": "import os, signal\nos.kill(os.getppid(), signal.SIGTERM)\n",
    "interrupts_its_parent": "import os, signal\nos.kill(os.getppid(), signal.SIGINT)\n",
    "kills_its_parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nos.read(9, 1)\n",
    "kills_its_group": "import os, signal\nos.killpg(0, signal.SIGKILL)\n",
}


def find_marked() -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                found += [int(folder.name)] * (MARK.encode() in (folder / "cmdline").read_bytes())
            except OSError:
                continue
    return found


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("leaves_a_daemon", Ending.OK),
        *slow(
            ("leaves_a_daemon_and_crashes", Ending.CRASHED),
            ("leaves_a_daemon_and_hangs", Ending.HUNG),
        ),
    ],
)
def test_a_daemon_in_a_session_and_an_environment_of_its_own_is_ended(
    environment: FilledPlace, name: str, outcome: Ending
) -> None:
    (step,) = import_each(within(environment, 5 if "hangs" in name else 60), (name,)).steps
    assert step.outcome is outcome
    for _ in range(100):
        left = find_marked()
        if not left:
            break
        time.sleep(0.05)
    assert left == []


@pytest.mark.parametrize("name", ["terminates_its_parent", "interrupts_its_parent"])
def test_a_signal_to_the_parent_changes_nothing(environment: FilledPlace, name: str) -> None:
    (step,) = import_each(environment, (name,)).steps
    assert step.outcome in {Ending.OK, Ending.RAISED}


@pytest.mark.parametrize("name", ["kills_its_parent", "kills_its_group"])
def test_a_package_that_kills_around_it_is_reported_and_the_next_is_run(
    environment: FilledPlace, name: str
) -> None:
    killed, good = import_each(environment, (name, "good")).steps
    assert killed.outcome is not Ending.OK
    assert good.outcome is Ending.OK


FORKS = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        break
print("ready", flush=True)
time.sleep(600)
"""


def test_all_below_a_process_are_listed_and_ended(tmp_path: Path) -> None:
    code = f"""
import subprocess, sys, time
from binary_checks.places.limits import kill_below, list_descendants
child = subprocess.Popen((sys.executable, "-c", {FORKS!r}), stdout=subprocess.PIPE)
for _ in range(4):
    child.stdout.readline()
pids = list_descendants({os.getpid()})
below = list_descendants(child.pid)
kill_below(child.pid)
for _ in range(100):
    left = list_descendants(child.pid)
    if not left:
        break
    time.sleep(0.05)
print(len(below), set(below) < set(pids), left, child.poll())
child.kill()
"""
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = run_process((sys.executable, "-c", code), cwd=tmp_path, env=environment, timeout=60)
    assert (ended.stdout.strip(), ended.stderr) == ("3 True () None", "")


def test_a_process_that_is_gone_has_nothing_below_it() -> None:
    assert list_descendants(2**22 + 1) == ()
    kill_below(2**22 + 1)
