"""On a Windows interpreter published wheels run as they should, and what is wrong is one line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE
from fixtures.windows import WHEELS, WHEELS_VARIABLE
from tests.oracles.downloads import download

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(
        sys.platform != "win32" or sys.version_info[:2] != (3, 11),
        reason="these wheels are for CPython 3.11 on Windows: `nox -s wine` has one",
    ),
]
JUDGED = ("cffi", "cryptography", "gmpy2", "lxml", "markupsafe", "orjson", "pillow")
BEAT = """
import time
while True:
    open({beat!r}, "a").write("x")
    time.sleep(0.02)
"""
HANGING = """
import os, subprocess, sys, time
beat = os.path.join(os.path.dirname(__file__), "beat.py")
subprocess.Popen([sys.executable, beat], creationflags=0x208)
def wait():
    while True: time.sleep(0.1)
wait()
"""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the published wheels."""
    if given := os.environ.get(WHEELS_VARIABLE):
        return Path(given)
    folder = tmp_path_factory.mktemp("wheels")
    download(folder, ("win_amd64",), list(WHEELS))
    return folder


def judge(wheel: Path, *options: str | Path) -> tuple[int, str]:
    """The exit status and the output of the runtime checks."""
    command = (sys.executable, "-m", "binary_checks", wheel, "-m", "runtime", *options)
    done = subprocess.run(
        list(map(str, command)),
        cwd=wheel.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


def problems(output: str, wheel: Path) -> list[str]:
    """The lines of problems, without the name of the package."""
    lines = [line.split(f": {wheel.name}: ", 1) for line in output.splitlines()]
    return [": ".join(line) for line in lines if len(line) == 2]


@pytest.mark.parametrize("name", JUDGED)
def test_a_healthy_wheel_passes_every_check(wheels: Path, tmp_path: Path, name: str) -> None:
    (wheel,) = wheels.glob(f"{name}-*.whl")
    required = {"cffi": ("pycparser",), "cryptography": ("cffi", "pycparser")}.get(name, ())
    beside = [path for each in required for path in wheels.glob(f"{each}-*.whl")]
    status, output = judge(wheel, *(part for path in beside for part in ("--binary-with", path)))
    assert (status, problems(output, wheel)) == (0, []), output
    assert f"{wheel.name}: fit" in output
    assert "not inspected: " not in output


def without(wheel: Path, name: str, folder: Path) -> Path:
    """A copy of the wheel that lacks a file, in RECORD too."""
    copy = folder / wheel.name
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(copy, "w") as written:
        assert any(info.filename.endswith(name) for info in archive.infolist())
        for info in archive.infolist():
            content = archive.read(info)
            if info.filename.endswith("/RECORD"):
                lines = content.splitlines(keepends=True)
                content = b"".join(line for line in lines if name.encode() not in line)
            if not info.filename.endswith(name):
                written.writestr(info, content)
    return copy


def test_a_wheel_that_lacks_a_dll_is_refused_by_the_loader(wheels: Path, tmp_path: Path) -> None:
    (wheel,) = wheels.glob("gmpy2-*.whl")
    status, output = judge(without(wheel, "libmpfr-6.dll", tmp_path))
    import_ = "import-fails: import gmpy2 is refused by the loader: ImportError: DLL load failed "
    extension = "extension-fails-to-load: gmpy2/gmpy2.cp311-win_amd64.pyd: is refused by the loader"
    found = problems(output, wheel)
    assert (status, len(found)) == (1, 2), output
    assert any(line.startswith(import_) for line in found)
    assert any(line.startswith(extension) for line in found)


@pytest.mark.skipif(WHEELS_VARIABLE not in os.environ, reason="a runner has the redistributable")
def test_a_wheel_that_counts_on_the_redistributable_fails_on_a_clean_windows(wheels: Path) -> None:
    (wheel,), (beside,) = wheels.glob("igraph-*.whl"), wheels.glob("texttable-*.whl")
    status, output = judge(wheel, "-m", "runtime or windows", "--binary-with", beside)
    import_ = "import-fails: import igraph is refused by the loader: ImportError: DLL load failed "
    lack = "unbundled-runtime: igraph/_igraph.pyd: needs msvcp140.dll, which neither CPython nor "
    found = problems(output, wheel)
    assert status == 1
    assert any(line.startswith(import_) for line in found)
    assert any(line.startswith(lack) for line in found)


def test_an_access_violation_is_a_line_that_says_where(tmp_path: Path) -> None:
    code = "import faulthandler\ndef fall(): faulthandler._read_null()\nfall()\n"
    wheel = build_wheel(tmp_path, tags=PURE, members={"demo/__init__.py": code})
    status, output = judge(wheel)
    line = "import-fails: import demo crashes: access violation at demo/__init__.py:2 in fall"
    assert (status, problems(output, wheel)) == (1, [line])


def test_what_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    members = {"demo/__init__.py": HANGING, "demo/beat.py": BEAT.format(beat=str(beat))}
    wheel = build_wheel(tmp_path, tags=PURE, members=members)
    (tmp_path / "patience.toml").write_text("timeout = 20\n")
    status, output = judge(wheel, "--binary-profile", tmp_path / "patience.toml")
    line = "import-fails: import demo hangs: 20 s at demo/__init__.py:6 in wait"
    assert (status, problems(output, wheel)) == (1, [line])
    written = beat.stat().st_size
    assert written > 0
    time.sleep(0.5)
    assert beat.stat().st_size == written
