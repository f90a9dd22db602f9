"""In a sandbox a package sees the system and its interpreter, and nothing else of the host."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.errors import GatherError, Unavailable
from binary_checks.model import Ending, Step
from binary_checks.places import Limits, Sandbox, choose_sandbox, sandbox
from binary_checks.places import sandbox as confinement
from binary_checks.places.existing import find_sources
from binary_checks.places.running import identify
from binary_checks.places.sandbox import confine, find_devices, find_visible
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import (
    PURE,
    PYTHON,
    FilledPlace,
    demand_sandbox,
    list_interpreters,
    open_offline,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")

MODULES = {
    "lists_home": "import os\nraise ValueError(os.listdir(os.environ['HOME']))\n",
    "finds_users_files": "open({secret!r}).read()\n",
    "writes_to_the_system": "open('/usr/lib/written', 'w')\n",
    "writes_beside_itself": "open(__file__ + '.new', 'w')\n",
    "writes_at_home": "import os, tempfile\n"
    "for folder in (os.environ['HOME'], tempfile.gettempdir(), '/tmp', '/dev/shm', '.'):\n"
    "    open(os.path.join(folder, 'x'), 'w').write('y')\n",
    "connects": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 5).close()\n",
    "talks_to_itself": "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
    "socket.create_connection(server.getsockname(), timeout=5).close()\n",
    "reads_processes": "import os\n"
    "found = [name for name in os.listdir('/proc') if name.isdecimal()]\n"
    "for name in found: open('/proc/%s/environ' % name, 'rb').read()\n"
    "assert len(found) < 4 and os.getpid() < 10, found\n",
    "reads_shadow": "open('/etc/shadow')\n",
    "sets_what_runs_at_a_crash": "open('/proc/sys/kernel/core_pattern', 'r+')\n",
    "uses_the_system": "import ctypes, getpass, locale, multiprocessing, os, pwd, ssl, time\n"
    "pwd.getpwuid(os.getuid())\nssl.create_default_context()\nmultiprocessing.Lock()\n"
    "multiprocessing.shared_memory if 0 else None\ntime.localtime()\n"
    "assert os.cpu_count() and os.path.exists('/proc/self/exe') and os.urandom(1)\n"
    "ctypes.CDLL(None)\nlocale.setlocale(locale.LC_ALL, '')\n",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FilledPlace]:
    chosen = demand_sandbox("auto")
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "secret").write_text("token")
    with socket.create_server(("127.0.0.1", 0)) as server:
        values = {"secret": str(folder / "secret"), "port": server.getsockname()[1]}
        members = {
            f"{name}.py": text.format(**values) if "{" in text else text
            for name, text in MODULES.items()
        }
        wheel = build_wheel(folder, name="looks", tags=PURE, members=members)
        with open_offline(wheel, sandbox=chosen) as opened:
            yield opened


def import_one(environment: FilledPlace, name: str) -> Step:
    (step,) = import_each(environment, (name,)).steps
    return step


@pytest.mark.parametrize(
    ("name", "detail"),
    [
        ("lists_home", "ValueError: []"),
        ("finds_users_files", "No such file or directory"),
        ("writes_to_the_system", "Read-only file system"),
        ("writes_beside_itself", "Read-only file system"),
        ("connects", "Connection refused"),
        ("reads_shadow", "Permission denied"),  # also to root
        # Linux asks for the user alone, and no capability, before it writes some settings.
        ("sets_what_runs_at_a_crash", "Permission denied" if os.geteuid() else "Read-only file"),
    ],
)
def test_what_is_not_its_own_is_out_of_reach(
    environment: FilledPlace, name: str, detail: str
) -> None:
    step = import_one(environment, name)
    assert (step.outcome, detail in step.detail) == (Ending.RAISED, True), step.detail


@pytest.mark.parametrize(
    "name", ["writes_at_home", "talks_to_itself", "reads_processes", "uses_the_system"]
)
def test_what_a_healthy_package_needs_is_there(environment: FilledPlace, name: str) -> None:
    step = import_one(environment, name)
    assert (step.outcome, step.stderr, step.detail) == (Ending.OK, "", "")


def test_the_network_is_there_for_a_profile_that_asks(tmp_path: Path) -> None:
    chosen = demand_sandbox("auto", limits=Limits(network=True))
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = MODULES["connects"].format(port=server.getsockname()[1])
        wheel = build_wheel(tmp_path, name="net", tags=PURE, members={"net.py": code})
        with open_offline(wheel, sandbox=chosen) as opened:
            assert import_one(opened, "net").outcome is Ending.OK


def make_venv(python: Path, folder: Path) -> Path:
    subprocess.run((python, "-I", "-m", "venv", "--without-pip", folder), check=True)
    return folder / "bin" / "python"


def link(target: Path, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


@pytest.mark.parametrize("kind", ["as it is", "venv", "venv of a venv", "links", "linked folder"])
def test_an_interpreter_starts_wherever_it_lies(tmp_path: Path, kind: str) -> None:
    """Be it below the user's home, where there is nothing else of it."""
    base = Path(os.path.realpath(sys.executable))
    python = {
        "as it is": lambda: PYTHON,
        "venv": lambda: make_venv(base, tmp_path / "venv"),
        "venv of a venv": lambda: make_venv(make_venv(base, tmp_path / "one"), tmp_path / "two"),
        "links": lambda: link(link(base, tmp_path / "bin" / "py"), tmp_path / "python"),
        "linked folder": lambda: link(base.parents[1], tmp_path / "prefix") / "bin" / base.name,
    }[kind]()
    chosen = demand_sandbox("auto")
    outside, inside = (identify(python, timeout=60, sandbox=each) for each in (None, chosen))
    assert inside == outside


@pytest.mark.parametrize("python", list_interpreters(), ids=lambda path: str(path.parts[-3]))
def test_every_interpreter_at_hand_starts_and_is_the_same(python: Path) -> None:
    chosen = demand_sandbox("auto")
    outside, inside = (identify(python, timeout=60, sandbox=each) for each in (None, chosen))
    assert inside == outside


def test_of_a_prefix_that_holds_a_home_only_its_parts_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    python = make_venv(PYTHON, tmp_path / ".local")
    (tmp_path / "pyvenv.cfg").write_text("")
    shown = find_visible(link(python, tmp_path / "bin" / "python"))
    assert tmp_path not in shown
    assert {tmp_path / "bin", tmp_path / "lib", tmp_path / ".local"} <= set(shown)


def test_a_program_that_is_no_python_shows_nothing(tmp_path: Path) -> None:
    with pytest.raises(GatherError, match="not a Python"):
        find_visible(tmp_path / "absent")


def test_packages_installed_for_development_are_seen_where_they_lie(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "x-1.dist-info").mkdir(parents=True)
    (site / "a.pth").write_text("# c\nimport os\n/src/a\n../b\n")
    about = '{"dir_info": {"editable": true}, "url": "file:///src/with%20space"}'
    (site / "x-1.dist-info" / "direct_url.json").write_text(about)
    (site / "unreadable.pth").mkdir()
    expected = [Path("/src/a"), site / "../b", Path("/src/with space")]
    assert list(find_sources(site)) == expected


def options(argv: tuple[str, ...], name: str) -> list[str]:
    return [argv[index + 1] for index, each in enumerate(argv) if each == name]


def test_no_capability_no_namespace_and_no_folder_of_users_is_left() -> None:
    argv = confine(("it",), Limits())
    assert options(argv, "--cap-drop") == ["ALL"]
    namespaces = {"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"}
    assert namespaces | {"--die-with-parent"} <= set(argv)
    assert argv[-2:] == ("--", "it")
    assert "--unshare-net" not in confine(("it",), Limits(network=True))
    argv = confine((), Limits())
    shown = {*options(argv, "--ro-bind"), *options(argv, "--bind"), *options(argv, "--dev-bind")}
    assert shown.isdisjoint({"/", "/home", "/root", "/tmp", "/var", "/run", "/srv", "/mnt"})
    assert "--bind" not in argv


def test_devices_of_gpus_are_seen_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps/x", "dri/card0", "kfd", "sda"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = {"nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-caps", "dri", "kfd"}
    assert {path.name for path in find_devices(tmp_path)} == names
    node = Path("/dev/nvidia0")
    monkeypatch.setattr(confinement, "find_devices", lambda: (node,))
    assert options(confine((), Limits(gpu=True)), "--dev-bind") == [str(node)]
    assert options(confine((), Limits()), "--dev-bind") == []


def test_a_folder_below_one_that_is_seen_is_not_mounted_twice(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    argv = confine((), Limits(visible=(tmp_path / "below", tmp_path, Path("/usr/lib"))))
    assert options(argv, "--ro-bind").count(str(tmp_path)) == 1
    assert str(tmp_path / "below") not in argv
    assert "/usr/lib" not in options(argv, "--ro-bind")


def fake_bwrap(folder: Path, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{code}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to"),
        ("exit 3", "it ends with exit status 3 and says nothing"),
        ("echo False", "a program in it sees processes of this host"),
        ("echo True; exit 1", "it ends with exit status 1 and says nothing"),
    ],
)
def test_a_sandbox_that_does_not_hold_is_none_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    fake_bwrap(tmp_path, code, monkeypatch)
    chosen = choose_sandbox("auto")
    assert not chosen.holds
    assert chosen.describe().startswith("not sandboxed: no bubblewrap: ")
    assert reason in chosen.describe()
    with pytest.raises(Unavailable, match="no sandbox works here: "):
        choose_sandbox("require")


def test_no_other_system_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    assert choose_sandbox("auto").reason == "there is no sandbox for this system"


def test_none_is_tried_where_none_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_bwrap(tmp_path, f"touch {tmp_path}/tried", monkeypatch)
    assert choose_sandbox("off").reason == "--binary-sandbox off"
    assert not (tmp_path / "tried").exists()


def test_a_sandbox_says_what_it_is() -> None:
    held = Sandbox(program="/usr/bin/bwrap")
    assert held.describe() == "sandboxed by bubblewrap"
    network = replace(held, limits=Limits(network=True))
    assert network.describe() == "sandboxed by bubblewrap with the network"
    shared = replace(held, own_proc=False)
    assert shared.describe() == "sandboxed by bubblewrap, which shows this host's processes"


@pytest.mark.parametrize(("status", "read"), [(0, 0), (1, 1), (139, -11), (134, -6), (255, 255)])
def test_a_status_of_the_sandbox_is_that_of_the_command(status: int, read: int) -> None:
    assert Sandbox(program="bwrap").read_status(status) == read
    assert Sandbox().read_status(status) == status
