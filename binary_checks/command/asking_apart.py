"""Has a process of its own answer a question, writes what it answers, and ends it at its limit."""

from __future__ import annotations

import codecs
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from binary_checks.command import guard
from binary_checks.errors import GatherError, ProfileError
from binary_checks.processes import SAFE_PATH

LONGEST = 60.0
"""Seconds that are waited for an answer; the time in which nobody takes it does not count."""
READY = b"."
"""The first byte of an answer: the tables are there, and the time begins."""
_PIECE = 1 << 16  # bytes
_MOST_SAID = 1 << 16  # bytes of complaints
_PROGRAM = (sys.executable, SAFE_PATH, "-m", "binary_checks.command.query_child")


def named(act: Callable[[], int]) -> int:
    """Do it; an error of ours becomes one line that names the subcommand, and its exit status."""

    def prefixed() -> int:
        try:
            return act()
        except ProfileError as error:
            raise ProfileError(f"query: {str(error).removeprefix('query: ')}") from None

    return guard(prefixed)


def answer_apart(asked: Mapping[str, Any]) -> int:
    """Write the answer as it comes, and return the exit status.

    Raises ProfileError for a question that takes too long, GatherError where the process was ended
    by a signal, and what writing raises.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # it may be killed
        return _answer_in(folder, asked)


def _answer_in(folder: str, asked: Mapping[str, Any]) -> int:
    process = subprocess.Popen(
        _PROGRAM,
        env={**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the other one
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdin as questions, process.stdout as answers, process.stderr as complaints:
        try:
            with suppress(OSError):  # it has ended: its status says why
                os.write(questions.fileno(), json.dumps(asked).encode() + b"\n")
            decode = codecs.getincrementaldecoder("utf-8")("replace").decode
            for piece in _read(process, answers.fileno()):
                sys.stdout.write(decode(piece))
            said = complaints.read(_MOST_SAID).decode("utf-8", "replace")
            status = process.wait()
        finally:
            process.kill()
            process.wait()
    if status < 0:
        name = signal.Signals(-status).name
        raise GatherError(f"query: the process that answers was ended by {name}")
    sys.stderr.write(said)
    return status


def _read(process: subprocess.Popen[bytes], answers: int) -> Iterator[bytes]:
    """Yield the answer. Raises ProfileError where more time was spent on waiting for it."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    piece = os.read(answers, _PIECE)  # a store that is far away takes its time
    left = LONGEST
    yield piece.removeprefix(READY)
    while piece:
        begun = time.monotonic()
        timer = threading.Timer(max(left, 0), give_up)
        timer.start()
        try:
            piece = os.read(answers, _PIECE)
        finally:
            timer.cancel()
        left -= time.monotonic() - begun
        if late.is_set():
            raise ProfileError(f"SQL: no answer within {LONGEST:g} seconds")
        yield piece
