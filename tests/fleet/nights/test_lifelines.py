"""All processes of a night end with it, however it was killed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.store import Store, running_prefix
from fixtures.build_wheel import build_wheel
from tests.fleet.nights.night_cells import is_running

NIGHT = "2026-11-20"
_LONGEST = 90.0  # seconds, after which it hangs
SLEEPS = """
import os, pathlib, time
pathlib.Path({marker!r}).write_text(str(os.getpid()))
time.sleep(600)
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for its processes in /proc"),
]


def write_cells(folder: Path) -> Path:
    """A cell whose package says which process imports it, and then sleeps."""
    code = SLEEPS.format(marker=str(folder / "imported"))
    tags = ("py3-none-any",)
    wheel = build_wheel(folder, members={"demo/__init__.py": code}, tags=tags)
    cells = folder / "cells.toml"
    cells.write_text(
        f"[[cells]]\nproject = 'demo'\npackage = {json.dumps(str(wheel))}\n"
        "[[run]]\nwhen = 'project=*'\noptions = ['--sandbox=off']\n"
    )
    return cells


@contextlib.contextmanager
def a_night(cells: Path, store: Store, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = (sys.executable, "-m", "binary_checks", "nightly", "run", str(cells))
    night = subprocess.Popen(
        [*command, "--store", store.url, "--date", NIGHT, *options],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield night
    finally:
        night.kill()
        night.wait()


def wait_for(what: Callable[[], Any]) -> Any:
    until = time.monotonic() + _LONGEST
    while not (found := what()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def wait_for_import(cells: Path, store: Store) -> list[int]:
    """The processes of the attempt, and of the import, once the package is imported."""
    marker = cells.with_name("imported")
    imports = int(wait_for(lambda: marker.exists() and marker.read_text()))
    (running,) = store.names(running_prefix(NIGHT))
    return [json.loads(store.read(running.name) or b"")["pid"], imports]


def test_an_attempt_ends_with_a_night_that_is_killed(store: Store, tmp_path: Path) -> None:
    cells = write_cells(tmp_path)
    with a_night(cells, store) as night:
        started = wait_for_import(cells, store)
        assert all(map(is_running, started))
        night.kill()
        wait_for(lambda: not any(map(is_running, started)))


def test_an_attempt_ends_with_a_worker_that_is_killed(store: Store, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    cells = write_cells(tmp_path)
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, **quiet) as cluster,
        a_night(cells, store, "--engine", f"dask:{cluster.scheduler_address}"),
    ):
        started = wait_for_import(cells, store)
        os.kill(cluster.workers[0].process.pid, signal.SIGKILL)
        wait_for(lambda: not any(map(is_running, started)))
