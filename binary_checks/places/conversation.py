"""The conversation with a probe: what is asked, what it answers, and whether it was itself.

The probe keeps its standard input and output for this alone and gives the package ``/dev/null`` in
their place; every line begins with a token that only the request names. An answer counts only with
a nonce, which is sent once the probe has said that the package's part is over: a package that
exits, execs, or writes to descriptors that it does not know, cannot have it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

_LONGEST_ANSWER = 16 << 20  # bytes
END = "end"
"""The stage of a probe whose work is over: the interpreter comes to its own end."""
LOST = 76
"""The exit status of a probe that can no longer be heard: its descriptors were closed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What a probe said until its pipe ended."""

    answer: Mapping[str, Any] = field(default_factory=dict)  # empty when it said nothing sound
    finished: bool = False  # it gave this answer, with the nonce, at the end of its work
    ended: bool = False  # and the interpreter came to its own end afterwards


@dataclass(frozen=True, kw_only=True, slots=True)
class StageLimit:
    """How long a probe may be at the stage that it last reported."""

    seconds: float
    end: float  # by time.monotonic()


class Conversation:
    """Asks one probe, and hears it in a thread of its own.

    ``stages`` are bounds in seconds, by the stage that the probe says it is at.
    """

    def __init__(
        self, request: Mapping[str, object], stages: Mapping[str, float] | None = None
    ) -> None:
        self.request = request
        self._stages, self._stage = stages or {}, ""
        self.staged = bool(self._stages)
        self.limit: StageLimit | None = None  # of the present stage, where it has a bound
        self._token, self._nonce = (secrets.token_hex(16).encode() for _ in range(2))
        self._known, self._finished, self._ended = b"", False, False
        self._thread: threading.Thread | None = None

    def begin(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        """Send the request and hear what comes back, until the pipe ends."""
        self._thread = threading.Thread(target=self._converse, args=(stdin, stdout), daemon=True)
        self._thread.start()

    def end(self, patience: float) -> Heard:
        """Give what was heard; a stranger who holds the pipe open is not waited for."""
        if self._thread is not None:
            self._thread.join(patience)
        answer = read_answer(self._known)
        finished = self._finished and bool(answer)
        return Heard(answer=answer, finished=finished, ended=finished and self._ended)

    def _converse(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError), stdout, stdin:
            _send(stdin, self._token, json.dumps(self.request).encode())
            rest = b""
            while chunk := os.read(stdout.fileno(), 1 << 16):
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest if len(rest) <= _LONGEST_ANSWER else b""
                for line in lines:
                    self._hear(line.rstrip(b"\r"), stdin)

    def _hear(self, line: bytes, stdin: IO[bytes]) -> None:
        token, _, said = line.partition(b" ")
        if not secrets.compare_digest(token, self._token):
            return  # printed by something that ran before the probe
        kind, _, rest = said.partition(b" ")
        nonce, _, answer = rest.partition(b" ")
        own = secrets.compare_digest(nonce, self._nonce)
        if kind == b"known" and not self._finished:
            self._known = rest
            if self._stages:
                self._enter(str(read_answer(rest).get("stage", "")))
        elif kind == b"over":
            self._enter(END)
            _send(stdin, self._nonce)
        elif kind == b"answer" and own:
            self._known, self._finished = answer, True
        elif kind == b"end" and own:
            self._ended = True

    def _enter(self, stage: str) -> None:
        if stage != self._stage:
            seconds = self._stages.get(stage)
            limit = seconds and StageLimit(seconds=seconds, end=time.monotonic() + seconds)
            self._stage, self.limit = stage, limit or None


def _send(stdin: IO[bytes], *words: bytes) -> None:
    stdin.write(b" ".join(words) + b"\n")
    stdin.flush()


def read_answer(text: bytes) -> Mapping[str, Any]:
    """Read what a probe said; empty when it is nothing, or nothing sound."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
