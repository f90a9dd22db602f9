"""Run the libraries in a separate process, which is started again after a crash.

The process gets only the path of a file of the package; its answer is JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import IO, Any

import binary_checks
from binary_checks.crosscheck.fact_tables import Library
from binary_checks.crosscheck.tables import TABLES
from binary_checks.model import Format
from binary_checks.safe_text import cut, one_line

if sys.platform != "win32":
    import resource

_PATIENCE = 60  # seconds for any file
_SPEED = 1 << 20  # bytes per additional second
_LONGEST_ANSWER = 256 << 20  # bytes; the answer for libtorch_cpu.so has 8 million
_START = """
import importlib.util, json, sys
place, sys.path[:] = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location(
    "binary_checks", f"{place}/__init__.py", submodule_search_locations=[place]
)
module = sys.modules["binary_checks"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
from binary_checks.crosscheck.library_process import main
main()
"""
"""Imports this copy of binary_checks from its own folder, and no other module from that folder."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryAnswer:
    """The facts that one library reads in one file, or why it reads none."""

    library: str  # name, with the version if it is installed
    reading: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reason: str = ""  # why there is no reading
    absent: bool = False  # the library is not installed, so it reads no file
    late: bool = False  # the library did not answer in time


class Libraries:
    """The process with the libraries, started at the first request."""

    def __init__(self, folder: Path, *, patience: int = _PATIENCE) -> None:
        self._folder, self.patience = folder, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader: threading.Thread | None = None

    def ask(self, library: Library, path: Path) -> LibraryAnswer:
        """Return the facts that the library reads in a file; never fail if either is broken.

        Raises OSError if the process cannot be started.
        """
        seconds = self.patience + path.stat().st_size // _SPEED
        line = self._exchange(
            {
                "look": f"{library.look.__module__}:{library.look.__name__}",
                "format": library.format,
                "unknown": sorted(library.unknown),
                "distribution": library.distribution,
                "path": str(path),
                "seconds": seconds,
            },
            seconds,
        )
        if line is None:
            self.close()
            return LibraryAnswer(
                library=library.name, reason=f"no answer within {seconds} s", late=True
            )
        if not line.endswith(b"\n"):
            return LibraryAnswer(library=library.name, reason=self._describe_end(line))
        return _read_answer(library, json.loads(line))

    def _exchange(self, request: Mapping[str, object], seconds: float) -> bytes | None:
        if self._process is None:
            self._process = self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            return None
        except OSError:  # the process has ended, which the reader thread reports
            return self._lines.get()

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process isolated from the environment and the current folder."""
        search = [place for place in sys.path if place and not _is_here(place)]
        ours = str(Path(binary_checks.__file__).parent)
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps([ours, search])],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        self._lines = queue.Queue()
        arguments = (process.stdout, self._lines)
        self._reader = threading.Thread(target=_forward_lines, args=arguments, daemon=True)
        self._reader.start()
        return process

    def _describe_end(self, line: bytes) -> str:
        from binary_checks.places.processes import name_crash  # only needed after a crash

        process = self._process
        if line or process is None:
            self.close()
            return f"its answer has more than {_LONGEST_ANSWER >> 20} MiB"
        status = process.wait(self.patience)
        self.close()
        crash = name_crash(status)
        return f"it crashed: {crash}" if crash else f"it ended with exit status {status}"

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._reader is not None
            self._reader.join(self.patience)
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    _close(pipe)
            self._process = None

    def __enter__(self) -> Libraries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close(pipe: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # the process has already ended
        pipe.close()


def _is_here(place: str) -> bool:
    """Return whether a folder is the current folder, from which nothing is imported."""
    return os.path.realpath(place) == os.path.realpath(os.curdir)


def _forward_lines(pipe: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Put each line into a queue; the last line may lack its newline."""
    while True:
        try:
            line = pipe.readline(_LONGEST_ANSWER)
        except (OSError, ValueError):  # closed, because nobody waits for the answer any more
            return
        lines.put(line)
        if not line.endswith(b"\n"):
            return


def _read_answer(library: Library, answer: Mapping[str, Any]) -> LibraryAnswer:
    if "absent" in answer:
        return LibraryAnswer(library=library.name, reason=answer["absent"], absent=True)
    name = f"{library.name} {answer['version']}"
    if "error" in answer:
        return LibraryAnswer(library=name, reason=answer["error"])
    return LibraryAnswer(library=name, reading=answer["reading"])


# The process with the libraries: one request per line in, one answer per line out.
#
# Some libraries are slow, or crash on some bytes, and some are written in C++. The process
# therefore limits its memory and time, and the parent limits its waiting for each answer.

_BASE = 2 << 30  # bytes of address space for any file
_TIMES = 8  # further address space, as a multiple of the file's size: LIEF stores the complete file


def main() -> None:
    """Answer requests until there are no more; discard what libraries print."""
    with os.fdopen(os.dup(1), "w", encoding="ascii") as answers:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps(_answer(request)), file=answers, flush=True)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the facts and the library's version, or why there are no facts."""
    try:
        version = metadata.version(request["distribution"])
    except metadata.PackageNotFoundError:
        return {"absent": "not installed"}
    module, _, name = request["look"].partition(":")
    table, path = TABLES[Format(request["format"])], request["path"]
    _limit(Path(path).stat().st_size, request["seconds"])
    try:
        views = getattr(import_module(module), name)(path)
        return {
            "version": version,
            "reading": {view.name: table.list_facts(view, request["unknown"]) for view in views},
        }
    except ImportError as error:
        return {"absent": f"it cannot be imported: {_describe(error)}"}
    except MemoryError:
        return {"version": version, "error": "it takes too much memory"}
    except Exception as error:
        return {"version": version, "error": _describe(error)}


def _limit(size: int, seconds: int) -> None:
    """Limit address space, and CPU time from now on, if the system supports limits."""
    if sys.platform != "win32":
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        limits = {
            resource.RLIMIT_AS: _BASE + _TIMES * size,
            resource.RLIMIT_CPU: int(used) + seconds,
        }
        for kind, most in limits.items():
            _, hard = resource.getrlimit(kind)
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with contextlib.suppress(OSError, ValueError):  # macOS rejects some limits
                resource.setrlimit(kind, (soft, hard))


def _describe(error: Exception) -> str:
    """Return the library's message in one line; it may quote text of a package."""
    words = " ".join(str(error).split())
    return cut(one_line(f"{type(error).__name__}: {words}" if words else type(error).__name__), 200)
