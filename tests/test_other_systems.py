"""What differs on macOS, with a faked system: no test of these needs a Mac."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib import request

import pytest

from binary_checks import files
from binary_checks.fleet.nights import StopRequest, cell_commands
from binary_checks.fleet.nights.attempt_process import kill_carriers, run_command
from binary_checks.places import Limits
from binary_checks.places.limits import limit_forks
from binary_checks.places.processes import Runner, Watch, run_process
from binary_checks.places.scripts import supervisor
from binary_checks.probes import process
from binary_checks.probes.gpu_host.reader import find_services
from binary_checks.probes.identify import script as identify
from binary_checks.web.web_settings import read_web_settings
from tests.fleet.nights.night_cells import is_running

posix = pytest.mark.skipif(os.name != "posix", reason="sessions, signals and limits of POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="compares with what Linux does")


@pytest.fixture
def on_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's statements about its system, as on an Apple silicon Mac."""
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "mac_ver", lambda: ("14.5", ("", "", ""), "arm64"))


@pytest.mark.usefixtures("on_macos")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has a variable for it")
def test_the_cache_is_in_the_library_folder() -> None:
    assert files.name_cache_folder({}) == Path.home() / "Library" / "Caches" / "binary-checks"


@pytest.mark.usefixtures("on_macos")
def test_the_system_has_a_version_and_cells_are_of_it_and_its_processor_and_without_mps(
    tmp_path: Path,
) -> None:
    assert identify.name_system() == "macOS 14.5"
    assert find_services({"CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}) == ()
    assert cell_commands.is_here("macosx_14_0", "arm64")
    assert not cell_commands.is_here("macos", "x86_64")
    assert not cell_commands.is_here("linux", "aarch64")


@pytest.mark.usefixtures("on_macos")
def test_proxies_come_from_the_settings_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "getproxies", lambda: {"https": "http://proxy:3128", "no": "x"})
    assert read_web_settings({}, {}).proxies == {"https": "http://proxy:3128"}


def test_loaded_libraries_are_those_that_dyld_lists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    library = tmp_path / "libdemo.dylib"
    library.touch()
    names = [f"{tmp_path}/demo/../libdemo.dylib".encode(), None]
    (tmp_path / "demo").mkdir()

    def get_name(index: int) -> bytes | None:
        return names[index]

    dyld = SimpleNamespace(_dyld_image_count=lambda: len(names), _dyld_get_image_name=get_name)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: dyld)
    assert process.list_mapped() == [str(library.resolve())]


@pytest.fixture
def without_proc(on_macos: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without /proc, where nothing looks for it."""
    listdir, iterdir = os.listdir, Path.iterdir

    def refuse(path: object) -> None:
        assert not str(path).startswith("/proc"), path

    def list_folder(path: str = ".") -> list[str]:
        refuse(path)
        return listdir(path)

    def iterate(folder: Path) -> Iterator[Path]:
        refuse(folder)
        return iterdir(folder)

    monkeypatch.setattr(os, "listdir", list_folder)
    monkeypatch.setattr(Path, "iterdir", iterate)


@posix
@pytest.mark.usefixtures("without_proc")
def test_what_a_probe_leaves_in_its_session_is_killed_without_proc(tmp_path: Path) -> None:
    code = "import subprocess as s; print(s.Popen(('sleep', '60')).pid, flush=True)"
    watch = Watch(runner=Runner.SUPERVISOR, limits=Limits())
    command = (sys.executable, "-c", code)
    environment = {"PATH": os.environ["PATH"]}
    ended = run_process(command, cwd=tmp_path, env=environment, timeout=60, watch=watch)
    assert ended.status == 0
    left = int(ended.stdout)
    while is_running(left):
        time.sleep(0.01)


@posix
@pytest.mark.usefixtures("without_proc")
def test_the_supervisor_adopts_nothing_and_processes_of_the_user_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert limit_forks(Limits()) == {}
    monkeypatch.setattr(ctypes, "CDLL", None)  # calling it would fail
    supervisor.control(1, 2)
    assert supervisor.list_children() == []


@linux
@pytest.mark.usefixtures("without_proc")
def test_the_memory_of_an_attempt_is_given_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "waitid")  # which macOS has since Python 3.13
    kill_carriers(str(tmp_path))
    found, _ = run_command(
        (sys.executable, "-c", "x = b'x' * (50 << 20)"),
        folder=tmp_path,
        environment={},
        timeout=60,
        stop=StopRequest(),
        began=lambda _: None,
    )
    assert found.exit_status == 0
    assert 50 << 10 < found.peak_memory < 50 << 20  # Linux states it in KiB
