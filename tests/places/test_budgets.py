"""What a package takes without end is counted over all that it starts, and ends in a report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks.model import Code, Ending, SnippetRequest
from binary_checks.places import Limits, limits
from binary_checks.places.limits import choose_memory, format_bytes, takes_more_disk
from binary_checks.places.processes import open_group
from binary_checks.probes.import_name.reader import import_each
from binary_checks.probes.run_snippet.reader import run_snippets
from fixtures.environments import (
    FilledPlace,
    within,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows what is to be counted")

LIMITS = Limits(processes=40, memory=400 << 20, disk=32 << 20)
# Each child takes a fifth of what all of them may, and less than any limit of one process.
EATS = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = {take}
        time.sleep(60)
time.sleep(60)
"""
FILLS = """
import os
for number in range(64):
    with open(os.path.join(os.environ["HOME"], str(number)), "wb") as file:
        for _ in range(8):
            file.write(b"x" * (1 << 20))
import time
time.sleep(60)
"""
MODULES = {
    "good": "",
    # More than any of them may, and no more than a machine bears on which they are not stopped.
    "forks_in_a_row": "import os, time\nfor _ in range(400):\n    if not os.fork(): break\n"
    "time.sleep(60)\n",
    "forks_in_sessions": "import os, time\nfor _ in range(400):\n    if not os.fork():\n"
    "        os.setsid()\n        break\ntime.sleep(60)\n",
    "explodes": "import os, time\nfor _ in range(10): os.fork()\ntime.sleep(60)\n",
    "eats": EATS.format(take="bytearray(os.urandom(1 << 20) * 80)"),
    "eats_shared": EATS.format(
        take="__import__('mmap').mmap(-1, 80 << 20); kept.write(b'x' * (80 << 20))"
    ),
    "shares": "import os, time\nkept = b'x' * (200 << 20)\npids = []\n"
    "for _ in range(6):\n    pid = os.fork()\n    if not pid: time.sleep(1); os._exit(0)\n"
    "    pids.append(pid)\nfor pid in pids: os.waitpid(pid, 0)\n",
    "fills": FILLS,
    "one_large_file": "import os\nwith open(os.environ['HOME'] + '/x', 'wb') as file:\n"
    "    while True: file.write(b'x' * (1 << 20))\n",
    "many_empty_files": "import os\nos.chdir(os.environ['HOME'])\n"
    "for number in range(1 << 20): open(str(number), 'w').close()\n",
    "writes_on_stderr": "import os\nwhile True: os.write(2, b'x' * 65536)\n",
}


def import_then_good(environment: FilledPlace, name: str) -> tuple[Ending, str]:
    """What became of it; the next import is as healthy as ever."""
    first, second = import_each(within(environment, 50), (name, "good")).steps
    assert second.outcome is Ending.OK
    return first.outcome, first.detail


def bounds_forks() -> bool:
    group = open_group(10)
    if group is not None:
        group.close()
    return group is not None or os.geteuid() != 0


@linux
@pytest.mark.parametrize("name", ["forks_in_a_row", "forks_in_sessions", "explodes"])
def test_forks_without_end_are_stopped(environment: FilledPlace, name: str) -> None:
    """Whoever counts comes first, we or the system, which refuses one more."""
    if name == "explodes" and not bounds_forks():
        pytest.skip("root's forks are bound by control groups alone, and none can be made here")
    outcome, detail = import_then_good(environment, name)
    if outcome is Ending.RAISED:
        assert detail.startswith("BlockingIOError: [Errno 11] Resource temporarily unavailable")
    else:
        expected = (Ending.STOPPED, "it runs more than 40 processes at once")
        assert (outcome, detail) == expected


@linux
@pytest.mark.parametrize("name", ["eats", "eats_shared"])
def test_memory_is_counted_over_all_processes(environment: FilledPlace, name: str) -> None:
    expected = (Ending.STOPPED, "its processes take more than 400 MiB of memory")
    assert import_then_good(environment, name) == expected


@linux
def test_memory_that_children_share_counts_once(environment: FilledPlace) -> None:
    assert import_then_good(environment, "shares") == (Ending.OK, "")


@linux
@pytest.mark.parametrize("name", ["fills", "many_empty_files"])
def test_a_disk_that_fills_up_is_reported(environment: FilledPlace, name: str) -> None:
    outcome, detail = import_then_good(environment, name)
    if environment.sandbox.holds and name == "fills":
        assert (outcome, "No space left on device" in detail) == (Ending.RAISED, True)
    else:
        assert (outcome, detail) == (Ending.STOPPED, "it writes more than 32 MiB")


@pytest.mark.skipif(os.name != "posix", reason="only POSIX limits the size of a file")
def test_one_file_without_end_is_refused(environment: FilledPlace) -> None:
    outcome, detail = import_then_good(environment, "one_large_file")
    assert outcome in {Ending.RAISED, Ending.STOPPED}
    assert "File too large" in detail or "No space left" in detail or "32 MiB" in detail


@linux
def test_the_folder_that_snippets_share_has_the_same_limit(environment: FilledPlace) -> None:
    fill = FILLS.replace('os.environ["HOME"]', "__import__('sys').pycache_prefix")
    asked = SnippetRequest(code={"fills": Code(fill)})
    (run,) = run_snippets(within(environment, 50), environment.wheel, asked).runs
    assert (run.step.outcome, run.step.detail) == (Ending.STOPPED, "it writes more than 32 MiB")


@pytest.mark.slow
def test_a_flood_on_stderr_without_end_is_one_that_does_not_end(environment: FilledPlace) -> None:
    (step,) = import_each(within(environment, 5), ("writes_on_stderr",)).steps
    assert step.outcome is Ending.HUNG
    assert len(step.stderr) < 100_000


def test_the_limit_of_memory_is_below_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_read_free", lambda: iter((1000 << 20, 500 << 20)))
    assert choose_memory() == 400 << 20
    monkeypatch.setattr(limits, "_read_free", lambda: iter(()))
    assert choose_memory() == 16 << 30


def test_files_are_counted_by_what_they_take(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "full").write_bytes(b"x" * (1 << 20))
    assert takes_more_disk((tmp_path,), 1 << 19)
    assert not takes_more_disk((tmp_path,), 1 << 21)
    assert not takes_more_disk((tmp_path / "absent",), 0)


@pytest.mark.parametrize(
    ("number", "text"), [(1 << 30, "1 GiB"), (3 << 29, "1.5 GiB"), (64 << 20, "64 MiB")]
)
def test_a_number_of_bytes_is_spelled(number: int, text: str) -> None:
    assert format_bytes(number) == text


@linux
def test_a_command_is_in_its_group_before_it_runs() -> None:
    group = open_group(10)
    if group is None:
        pytest.skip("no control group can be made here")
    try:
        command = group.enter(("cat", "/proc/self/cgroup"))
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        group.close()
    assert "/binary_checks-" in shown


@linux
def test_the_files_of_the_host_are_not_counted_while_a_sandbox_is_still_made(
    tmp_path: Path,
) -> None:
    """This process sees the host's, as one in a sandbox does at its start."""
    assert limits.count_files(os.getpid(), tmp_path) == 0
