"""Where there is no bubblewrap, Linux's own namespaces confine a command as tightly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.places.confinement import Limits, confine
from binary_checks.places.prohibitions import find_prohibition
from binary_checks.places.sandbox import ROUTES, choose_sandbox
from binary_checks.places.visible import find_visible
from fixtures.environments import PYTHON, demand_sandbox, forbid_namespaces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run() -> Run:
    program = demand_sandbox("user namespaces").program
    limits = Limits(program=program, visible=find_visible(PYTHON))

    def run(code: str, **changes: object) -> subprocess.CompletedProcess[str]:
        command = confine((str(PYTHON), "-I", "-c", code), replace(limits, **changes))  # type: ignore[arg-type]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    return run


def test_without_bubblewrap_they_are_what_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    demand_sandbox("user namespaces")
    monkeypatch.setenv("PATH", "")
    assert choose_sandbox("require").describe() == "sandboxed by user namespaces"


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
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    escaped = str(shared).replace(" ", r"\040")
    assert writable - devices == {"/proc", "/tmp", "/dev/shm", "/private", escaped}
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
@pytest.mark.parametrize("route", ROUTES)
def test_no_second_proc_brings_the_settings_of_the_system_back(route: str) -> None:
    limits = Limits(program=demand_sandbox(route).program, visible=find_visible(PYTHON))
    command = confine((str(PYTHON), "-I", "-c", NESTED), limits)
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "-1\n"


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


def test_a_program_that_is_not_there_is_named_in_one_line() -> None:
    limits = Limits(program=demand_sandbox("user namespaces").program)
    command = confine(("/absent",), limits)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == "/absent: cannot be run: No such file or directory\n"


def test_where_they_are_forbidden_the_launcher_says_so_in_one_line() -> None:
    words = (*forbid_namespaces(), *choose_sandbox("auto", routes=("user namespaces",)).program)
    command = (*words, "--unshare-net", "--", "/bin/true")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cannot make namespaces: No space left on device\n"


@pytest.mark.parametrize(
    ("file", "user", "said"),
    [
        (("sys/user/max_user_namespaces", "0\n"), 0, "user.max_user_namespaces is 0"),
        (("sys/user/max_user_namespaces", "60000\n"), 0, ""),
        (("sys/kernel/unprivileged_userns_clone", "0\n"), 1000, "unprivileged_userns_clone is 0"),
        (("sys/kernel/unprivileged_userns_clone", "0\n"), 0, ""),
        (("sys/kernel/apparmor_restrict_unprivileged_userns", "1\n"), 1000, "AppArmor restricts"),
        (("sys/kernel/apparmor_restrict_unprivileged_userns", "0\n"), 1000, ""),
        (("self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"), 0, "a seccomp filter"),
        (("self/status", "Name:\tx\nSeccomp:\t0\n"), 0, ""),
        (("absent", ""), 1000, ""),
    ],
)
def test_what_forbids_them_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: tuple[str, str], user: int, said: str
) -> None:
    path, text = file
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    found = find_prohibition(tmp_path)
    assert (said in found, bool(found)) == (True, bool(said))
