"""The interpreter of this host that a container is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from binary_checks.errors import Unavailable
from binary_checks.places import mounted_pythons
from binary_checks.places.mounted_pythons import (
    find_managed_pythons,
    mount_managed,
    mount_python,
    name_managed_folder,
)
from fixtures.values import wheel


@pytest.mark.skipif(os.name != "posix", reason="a script with a shebang")
def test_a_program_that_is_no_python_is_named_in_one_line(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 3\n", encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(Unavailable) as refused:
        mount_python(program)
    reason = "not a Python 3.8 or later that runs here: it ends with exit status 3 and says nothing"
    assert str(refused.value) == f"{program}: {reason}"


@pytest.fixture
def managed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Pythons as uv lays them."""
    monkeypatch.setattr(mounted_pythons, "find_host_architecture", lambda: "x86_64")
    for name, program in {
        "cpython-3.12.3-linux-x86_64-gnu": "python3.12",
        "cpython-3.12.10-linux-x86_64-gnu": "python3.12",
        "cpython-3.13.1-linux-x86_64-gnu": "python3.13",
        "cpython-3.13.1+freethreaded-linux-x86_64-gnu": "python3.13t",
        "cpython-3.13.1-linux-x86_64-musl": "python3.13",
        "cpython-3.13.1-linux-aarch64-gnu": "python3.13",
        "cpython-3.14.0-linux-x86_64-gnu": "",
        "pypy-3.11.1-linux-x86_64-gnu": "python3.11",
    }.items():
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "lib" / program).mkdir(parents=True)
        if program:
            path = tmp_path / name / "bin" / program
            path.write_text("#!/bin/sh\n", encoding="utf-8")
            path.chmod(0o755)
    return tmp_path


GNU, MUSL = "linux-x86_64-gnu", "linux-x86_64-musl"


@pytest.mark.parametrize(
    ("tag", "names"),
    [
        ("cp312-cp312", [f"cpython-3.12.10-{GNU}"]),
        ("cp313-cp313", [f"cpython-3.13.1-{GNU}", f"cpython-3.13.1-{MUSL}"]),
        ("cp313-cp313t", [f"cpython-3.13.1+freethreaded-{GNU}"]),
        (
            "cp39-abi3",
            [f"cpython-3.12.10-{GNU}", f"cpython-3.13.1-{GNU}", f"cpython-3.13.1-{MUSL}"],
        ),
        ("cp313-abi3", [f"cpython-3.13.1-{GNU}", f"cpython-3.13.1-{MUSL}"]),
        ("cp311-cp311", []),
        ("pp311-pypy311_pp73", []),
    ],
)
def test_a_package_gets_the_pythons_that_it_claims(
    managed: Path, tag: str, names: list[str]
) -> None:
    claims = wheel(f"demo-1.0-{tag}-manylinux_2_28_x86_64.whl").claims
    found = find_managed_pythons(claims, managed)
    assert [each.folder.name for each in found] == names


def test_a_managed_python_is_mounted_with_its_library(managed: Path) -> None:
    claims = wheel("demo-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl").claims
    (found,) = find_managed_pythons(claims, managed)
    library = found.folder / "lib" / "libpython3.13t.so.1.0"
    library.write_bytes(b"")
    mounted = mount_managed(found, 2)
    assert mounted.program == "/mnt/python2/bin/python3.13t"
    assert mounted.host == found.program
    assert mounted.mounts == (
        (found.program, "/mnt/python2/bin/python3.13t"),
        (found.folder / "lib" / "python3.13t", "/mnt/python2/lib/python3.13t"),
        (library, "/mnt/python2/lib/libpython3.13t.so.1.0"),
    )


def test_pythons_lie_where_uv_puts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", "/pythons")
    assert name_managed_folder() == Path("/pythons")
    monkeypatch.delenv("UV_PYTHON_INSTALL_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert name_managed_folder() == Path("/data/uv/python")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert name_managed_folder() == Path.home() / ".local/share/uv/python"


def test_no_managed_python_is_no_error(tmp_path: Path) -> None:
    assert find_managed_pythons(wheel().claims, tmp_path / "gone") == []
