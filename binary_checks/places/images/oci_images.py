"""Takes the root file system out of an OCI image, which podman or docker pulls by its digest.

No container of it is started: what runs there runs in our sandbox, as in every other image.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from binary_checks.errors import GatherError, Unavailable
from binary_checks.places.images.image_entries import ImageEntry
from binary_checks.places.images.root_tree import unpack_root
from binary_checks.withheld import user_environment

ENGINES = ("podman", "docker")
"""What pulls images, the first that works."""
_NEVER_RUN = "/nothing"  # the command of a container that is not started


def pull_root(entry: ImageEntry, root: Path, *, timeout: float) -> None:
    """Export the file system of an image into a new folder, and leave no container behind.

    Raises Unavailable with what each engine said.
    """
    until, reasons = time.monotonic() + timeout, []
    for engine in filter(shutil.which, ENGINES):
        try:
            _find_locally_or_pull(engine, entry.oci, until)
            with _create(engine, entry.oci, until) as container:
                _export(engine, container, root, until)
                return
        except Unavailable as error:
            shutil.rmtree(root, ignore_errors=True)
            reasons.append(f"{engine}: {error}")
    raise Unavailable("; ".join(reasons) or "there is no podman and no docker here; install podman")


def _find_locally_or_pull(engine: str, reference: str, until: float) -> None:
    with contextlib.suppress(Unavailable):
        _ask((engine, "image", "inspect", "--format", "{{.Id}}", reference), until)
        return
    _ask((engine, "pull", "--quiet", reference), until)


@contextlib.contextmanager
def _create(engine: str, reference: str, until: float) -> Iterator[str]:
    container = _ask((engine, "create", "--network", "none", reference, _NEVER_RUN), until)
    try:
        yield container
    finally:
        with contextlib.suppress(Unavailable):
            _ask((engine, "rm", "--force", container), time.monotonic() + 60)


def _ask(command: Sequence[str], until: float) -> str:
    """Return the last line that an engine prints; raises Unavailable where it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=user_environment(),
            timeout=max(until - time.monotonic(), 0.1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[1]} did not end in time") from None
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}"
        raise Unavailable(f"{command[1]} failed: {last}")
    return done.stdout.strip().rpartition("\n")[2]


def _export(engine: str, container: str, root: Path, until: float) -> None:
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            (engine, "export", container),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            env=user_environment(),
            start_new_session=True,
        )
        timer = threading.Timer(max(until - time.monotonic(), 0.1), _kill, (process,))
        timer.start()
        try:
            assert process.stdout is not None
            _unpack(process.stdout, root)
            status = process.wait()
        finally:
            timer.cancel()
            _kill(process)
            process.wait()
    if status:
        raise Unavailable(f"export ended with {status}")


def _unpack(stream: IO[bytes], root: Path) -> None:
    with stream:
        try:
            unpack_root(stream, root)
        except GatherError as error:
            raise Unavailable(str(error)) from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
