"""Roots built of Debian's own packages are what they say, twice the same, and run."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from binary_checks.errors import Unavailable
from binary_checks.model.root_filesystem import RootFilesystem
from binary_checks.places.images import ImageSettings, find_image

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the images named are x86_64's"),
]


def build(name: str, cache: Path | None = None) -> RootFilesystem:
    try:
        return find_image(name, ImageSettings(cache=cache))
    except Unavailable as error:
        pytest.skip(str(error))


def run(root: RootFilesystem, *command: str) -> str:
    """What a program of the root prints, in a sandbox without network."""
    if not shutil.which("bwrap"):
        pytest.skip("there is no bwrap here; install bubblewrap")
    binds = [word for path, inside in root.binds for word in ("--ro-bind", str(path), inside)]
    done = subprocess.run(
        [
            *("bwrap", "--unshare-all", "--die-with-parent", "--clearenv"),
            *("--ro-bind", str(root.path), "/", "--proc", "/proc", "--dev", "/dev", *binds, "--"),
            *root.runner,
            *command,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "name", ["bullseye", "bookworm", "trixie", "bullseye-python", "trixie-arm64", "musl"]
)
def test_two_builds_of_the_same_packages_are_the_same_bytes(name: str, tmp_path: Path) -> None:
    one, other = (build(name, tmp_path / each) for each in ("one", "other"))
    assert one.path != other.path
    assert one.packages == other.packages
    assert one.digest == other.digest


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_root_builds_the_same_bytes_as_any_user(tmp_path: Path) -> None:
    mine = build("bullseye", tmp_path / "mine")
    shared = Path("/var/tmp") / f"binary_checks-{os.getpid()}"
    shared.mkdir()
    try:
        os.chown(shared, 65534, 65534)
        script = (
            "import sys; from pathlib import Path; from binary_checks.places.images import *; "
            "print(find_image('bullseye', ImageSettings(cache=Path(sys.argv[1]))).digest)"
        )
        done = subprocess.run(
            [shutil.which("python3", path="/usr/bin") or "python3", "-c", script, str(shared)],
            env={"PATH": os.environ["PATH"], "HOME": str(shared), "PYTHONPATH": _reachable()},
            cwd="/",
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        shutil.rmtree(shared)
    assert done.stdout.strip() == mine.digest, done.stderr


def _reachable() -> str:
    """Where this checkout and what it imports lie, for a user who may not enter root's home."""
    import packaging

    import binary_checks

    folders = [Path(module.__file__ or "").parents[1] for module in (binary_checks, packaging)]
    for folder in folders:
        for above in (folder, *folder.parents):
            if not above.stat().st_mode & 0o001:
                pytest.skip(f"{above} is closed to other users")
    return os.pathsep.join(map(str, folders))


@pytest.mark.parametrize(
    ("name", "libc"),
    [("bullseye", "glibc 2.31"), ("bookworm", "glibc 2.36"), ("trixie", "glibc 2.41")],
)
def test_a_root_has_the_libc_that_it_says_and_no_library_beyond_the_policy(
    name: str, libc: str
) -> None:
    root = build(name)
    assert root.libc == libc
    assert run(root, "/usr/bin/getconf", "GNU_LIBC_VERSION").strip() == libc
    names = {path.name for path in root.path.rglob("lib*.so*")}
    assert {"libstdc++.so.6", "libz.so.1"} <= names
    lucky = ("libssl", "libcrypto", "liblzma", "libbz2", "libffi", "libX", "libGL", "libglib")
    assert not [each for each in names if each.startswith(lucky)]


@pytest.mark.parametrize("name", ["bullseye-python", "trixie-python-arm64", "trixie-python-s390x"])
def test_a_root_with_a_python_runs_it(name: str) -> None:
    root = build(name)
    (python,) = root.pythons
    script = "import ssl, sqlite3, ctypes, platform, sys; print(platform.machine(), sys.version)"
    machine, version, *_ = run(root, python.path, "-I", "-c", script).split()
    assert machine == root.architecture
    assert version.startswith(f"{python.version}.")


def test_the_loader_of_musl_lists_what_it_loads() -> None:
    root = build("musl")
    assert root.libc.startswith("musl 1.2")
    assert root.loader in run(root, root.loader, "--list", root.loader)


def test_nothing_of_a_build_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    build("musl", tmp_path / "cache")
    assert [path.name.partition("@")[0] for path in (tmp_path / "cache").iterdir()].count(
        "musl"
    ) == 1
    assert list((tmp_path / "temporary").iterdir()) == []
    left = [
        *Path("/tmp").glob("binary_checks-image-*"),
        *Path("/var/tmp").glob("binary_checks-im*"),
    ]
    assert left == []
