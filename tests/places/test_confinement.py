"""A confined command finds nothing of the host to write to, and gets no right back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from binary_checks.places import Limits
from binary_checks.places.sandbox import confine, find_visible
from fixtures.environments import PYTHON, demand_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(params=[True, False], ids=["its own /proc", "the host's /proc"])
def run(request: pytest.FixtureRequest) -> Run:
    sandbox = demand_sandbox("auto")
    if request.param and not sandbox.own_proc:
        pytest.skip("no new /proc can be mounted here")
    visible = find_visible(PYTHON)

    def run(code: str, **changes: Any) -> subprocess.CompletedProcess[str]:
        command = confine(
            (str(PYTHON), "-I", "-c", code),
            Limits(visible=visible, **changes),
            program=sandbox.program,
            own_proc=request.param,
        )
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


MOUNTS = """
for line in open("/proc/self/mountinfo"):
    fields = line.split()
    print(fields[4], "ro" in fields[5].split(","))
"""


def test_nothing_is_writable_but_what_lies_in_memory(run: Run, tmp_path: Path) -> None:
    shared = tmp_path / "with a space"
    shared.mkdir()
    lines = run(MOUNTS, writable=(shared,), private=Path("/private")).stdout.splitlines()
    writable = {line.rpartition(" ")[0] for line in lines if line.endswith("False")}
    devices = {
        f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "pts")
    }
    escaped = str(shared).replace(" ", r"\040")
    assert writable - devices - {"/proc"} == {"/tmp", "/dev/shm", "/private", escaped}
    assert len(lines) > len(writable)


def test_of_the_host_s_root_there_is_nothing(run: Run) -> None:
    shown = run("import os; print(*sorted(os.listdir('/')), *os.listdir('/tmp'))").stdout.split()
    assert {"old", "new", "boot", "mnt", "media", "srv"}.isdisjoint(shown)
    assert {"usr", "proc", "dev", "tmp"} <= set(shown)


def test_no_capability_is_left_nor_comes_back(run: Run) -> None:
    text = run("print(open('/proc/self/status').read())").stdout
    values = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert {int(values[f"Cap{name}"], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert values["NoNewPrivs"] == "1"


@pytest.mark.parametrize(
    "call",
    [
        "mount(b'none', b'/usr', None, 32 | 4096, None)",  # remounted without its ro
        "mount(b'none', b'/', None, 32 | 4096, None)",
        "umount2(b'/etc', 2)",
        "umount2(b'/proc', 2)",
    ],
)
@pytest.mark.parametrize("begun", ["", "libc.unshare(0x10000000 | 0x20000); "])
def test_no_mount_is_undone_also_by_the_owner_of_namespaces_below(
    run: Run, call: str, begun: str
) -> None:
    code = f"import ctypes; libc = ctypes.CDLL(None); {begun}print(libc.{call})"
    assert run(code).stdout == "-1\n"


NESTED = """
import ctypes, os
libc = ctypes.CDLL(None)
libc.unshare(0x10000000 | 0x20000 | 0x20000000)  # of the user, of mounts, of processes
os.fork() and (os.wait(), os._exit(0))
print(libc.mount(b"proc", b"/tmp", b"proc", 0, None), flush=True)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0,
    reason="only root writes settings in a /proc of its own",
)
def test_no_second_proc_brings_the_settings_of_the_system_back(run: Run) -> None:
    assert run(NESTED).stdout == "-1\n"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("raise SystemExit(7)", 7),
        ("import os; os.abort()", 128 + 6),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
        ("import os; os.fork() or os._exit(3)", 0),
    ],
)
def test_it_ends_as_the_command_does(run: Run, code: str, status: int) -> None:
    assert run(code).returncode == status


def test_the_signals_of_the_command_are_as_the_system_gives_them(run: Run) -> None:
    code = "print(*(l.split()[1] for l in open('/proc/self/status') if l.startswith('SigIgn')))"
    plain = subprocess.run((PYTHON, "-I", "-c", code), capture_output=True, text=True, check=True)
    # SIGINT is ignored by whatever a shell started in the background, these tests too.
    ignored, expected = (int(text, 16) & ~0b10 for text in (run(code).stdout, plain.stdout))
    assert ignored == expected


SPY = """
import os
others = set(filter(str.isdecimal, os.listdir("/proc"))) - {os.readlink("/proc/self")}
for pid in others:
    try:
        print(open(f"/proc/{pid}/environ").read())
    except OSError:
        pass
"""


def test_it_reads_the_environment_of_no_process_of_the_host(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a" * 40
    with subprocess.Popen(["sleep", "60"], env={"TOKEN": secret}) as other:
        done = run(SPY)
        other.kill()
    assert done.returncode == 0
    assert secret not in done.stdout


HIDING = """
mount --bind /dev/null /proc/interrupts
exec "$0" -c 'import binary_checks.places as p; print(p.choose_sandbox("auto").describe())'
"""


def test_where_no_new_proc_is_allowed_the_host_s_is_shown_and_the_header_says_so() -> None:
    """As in a container, whose /proc hides some files: Linux mounts no whole one below that."""
    demand_sandbox("auto")
    words = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")
    if not shutil.which("unshare") or subprocess.run((*words, "true"), check=False).returncode:
        pytest.skip("no mount namespace can be made here")
    command = (*words, HIDING, sys.executable)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "sandboxed by bubblewrap, which shows this host's processes\n"
