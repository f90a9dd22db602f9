"""What differs on macOS, with a faked system: no test of these needs a Mac."""

from __future__ import annotations

import ctypes
import platform
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib import request

import pytest

from binary_checks import files
from binary_checks.fleet.artifacts import read_host_system
from binary_checks.fleet.nights import cell_commands
from binary_checks.probes import process
from binary_checks.probes.identify import script as identify
from binary_checks.web.web_settings import read_web_settings


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
def test_the_name_of_the_system_has_its_version() -> None:
    assert identify.name_system() == "macOS 14.5"


@pytest.mark.usefixtures("on_macos")
def test_cells_for_this_host_are_those_of_macos_and_its_processor() -> None:
    assert cell_commands.is_here("macosx_14_0", "arm64")
    assert not cell_commands.is_here("macos", "x86_64")
    assert not cell_commands.is_here("linux", "aarch64")


@pytest.mark.usefixtures("on_macos")
def test_an_artifact_is_pushed_from_macos() -> None:
    assert read_host_system().value == "macos"


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
