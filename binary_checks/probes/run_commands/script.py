"""Run commands, each with its descendants for a limited time, and report how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

TYPE_CHECKING = False  # probes do not import typing, which only type checkers need
if TYPE_CHECKING:
    from typing import Any

KEPT = 65536  # bytes of each output: half of it the head, half the tail
GRACE = 5.0  # seconds in which to read a pipe that an escaped process still keeps open


class Drain(threading.Thread):
    """A thread that reads a pipe until it closes, and keeps the head and the tail."""

    def __init__(self, pipe: Any) -> None:
        super().__init__(daemon=True)
        self.pipe, self.head, self.tail = pipe, b"", b""
        self.start()

    def run(self) -> None:
        """Read until the pipe closes."""
        while True:
            chunk = os.read(self.pipe.fileno(), KEPT)
            if not chunk:
                return
            room = KEPT // 2 - len(self.head)
            self.head += chunk[:room]
            self.tail = (self.tail + chunk[room:])[-KEPT // 2 :]

    def text(self) -> str:
        """Return the kept text."""
        self.join(GRACE)
        return (self.head + self.tail).decode("utf-8", "replace")


def probe(request: dict[str, Any], record: Any, _process: dict[str, Any]) -> None:
    """Run the jobs, several at a time; stop a job at its first command that fails.

    Results are sent after each command: a program that kills every process it can reach also kills
    this one, but loses no earlier result.
    """
    ends: list[list[dict[str, Any]]] = [[] for _ in request["jobs"]]
    waiting, lock = list(enumerate(request["jobs"])), threading.Lock()
    record({"jobs": ends})

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                number, commands = waiting.pop(0)
            for command in commands:
                end = run(command, request["seconds"])
                with lock:
                    ends[number].append(end)
                    record({"jobs": ends})
                if end["status"] != 0:
                    break

    workers = [threading.Thread(target=work) for _ in range(request["parallel"])]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    record.finish({"jobs": ends})


def run(command: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Run one command; the status is None if it was killed at its time limit."""
    try:
        process = subprocess.Popen(
            command["argv"],
            cwd=command["folder"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        refusal = "cannot be run: %s" % (error.strerror or error)
        return {"status": 127, "stdout": "", "stderr": "", "refusal": refusal}
    drains = Drain(process.stdout), Drain(process.stderr)
    status = None
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    kill(process)
    stdout, stderr = (drain.text() for drain in drains)
    return {"status": status, "stdout": stdout, "stderr": stderr, "refusal": ""}


def kill(process: Any) -> None:
    """Kill the remaining processes of a command."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            pass
    process.kill()
    process.wait()
