"""A desk run reproduces the night: two real nights, their page, and its command."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel

pytestmark = pytest.mark.slow
CELLS = """
[sources.builds]
folder = "dist"

[[cells]]
project = "demo"
system = "linux-x86_64"
python = "3.12"
source = "builds"

[[run]]
when = "project=demo"
profile = "strict.toml"
options = ["--static"]
"""
CELL = "demo-linux-x86_64-3.12-builds"
TAG = "cp312-cp312-manylinux_2_28_x86_64"


def binary_checks(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "binary_checks", *arguments],
        cwd=cwd, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def build(folder: Path, version: str, module: str, *needed: str) -> None:
    """One build of the project with an extension module, in the folder that the channel is."""
    folder.mkdir(exist_ok=True)
    native = build_elf(needed=(*needed, "libc.so.6"))
    members = {"demo/__init__.py": b"", f"demo/{module}.so": native}
    build_wheel(folder, version=version, tags=(TAG,), members=members)


def run_night(folder: Path, night: str) -> None:
    for action in (["run", "cells.toml"], ["collect"]):
        ended = binary_checks("nightly", *action, "--store", "nights", "--date", night, cwd=folder)
        assert ended.returncode in (0, 1), ended.stderr


def test_the_page_says_what_broke_and_its_command_shows_it_again(tmp_path: Path) -> None:
    (tmp_path / "cells.toml").write_text(CELLS)
    (tmp_path / "strict.toml").write_text("[levels]\norphan-library = 'off'\n")
    build(tmp_path / "dist", "1.0", "_native")
    run_night(tmp_path, "2026-11-20")
    build(tmp_path / "dist", "1.1", "_natives", "libgone.so.1")
    run_night(tmp_path, "2026-11-21")

    made = binary_checks("hud", "site", "--store", "nights", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    index = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "broke in 1 cell" in index
    assert "1.0 passed on 2026-11-20, now 1.1" in index
    page = (tmp_path / "site" / "cells" / f"{CELL}.html").read_text("utf-8")
    changed = page.partition("What changed")[2].partition("</section>")[0]
    assert "libgone.so.1" in changed
    assert "demo._native: is gone" in changed
    assert "demo._natives: is new" in changed

    found = re.search(r'<pre class="commands" tabindex="0"><bdi>(binary-checks .*?)</bdi>', page)
    assert found
    command = html.unescape(found[1])
    desk = subprocess.run(
        ["sh", "-c", command.replace("binary-checks", f"{sys.executable} -m binary_checks", 1)],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert desk.returncode == 1
    (said,) = re.findall(r"<p class=\"sentence\"><bdi>(.*?libgone.*?)</bdi>", page)
    assert html.unescape(said) in " ".join((desk.stdout + desk.stderr).split())
