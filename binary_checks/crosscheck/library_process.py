"""Run the libraries in a separate process, which is started again after a crash.

The process gets only the path of a file of the package; its answer is JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import binary_checks
from binary_checks.crosscheck.fact_tables import Facts, Library
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
    reading: Mapping[str, Facts] = field(default_factory=dict)
    reason: str = ""  # why there is no reading
    absent: bool = False  # the library is not installed, so it reads no file
    late: bool = False  # the library did not answer in time


class Libraries:
    """The process with the libraries, started at the first request."""

    def __init__(self, folder: Path, *, patience: int = _PATIENCE) -> None:
        self._folder, self.patience = folder, patience
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, library: Library, path: Path) -> LibraryAnswer:
        """Return the facts that the library reads in a file; never fail if either is broken.

        Raises OSError if the process cannot be started.
        """
        seconds = self.patience + path.stat().st_size // _SPEED
        request = {
            "library": library.name,
            "look": f"{library.look.__module__}:{library.look.__name__}",
            "distribution": library.distribution,
            "path": str(path),
            "seconds": seconds,
        }
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        end = time.monotonic() + seconds
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline(_LONGEST_ANSWER)
        except OSError:  # the process has ended
            line = b""
        finally:
            timer.cancel()
        late, too_long = time.monotonic() >= end, len(line) >= _LONGEST_ANSWER
        if line.endswith(b"\n") and not late:  # else the timer may have killed the process
            return LibraryAnswer(**json.loads(line))
        status = 0 if too_long else process.wait(self.patience)
        self.close()
        if late:
            reason = f"no answer within {seconds} s"
        elif too_long:
            reason = f"its answer has more than {_LONGEST_ANSWER >> 20} MiB"
        else:
            from binary_checks.places.processes import name_crash  # only needed after a crash

            crash = name_crash(status)
            reason = f"it crashed: {crash}" if crash else f"it ended with exit status {status}"
        return LibraryAnswer(library=library.name, reason=reason, late=late)

    def _start(self) -> subprocess.Popen[bytes]:
        """Start the process isolated from the environment and the current folder."""
        here = os.path.realpath(os.curdir)
        search = [place for place in sys.path if place and os.path.realpath(place) != here]
        ours = str(Path(binary_checks.__file__).parent)
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _START, json.dumps([ours, search])],
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()  # also closes the pipes
            self._process = None


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
    """Return the fields of a LibraryAnswer."""
    name, path = request["library"], request["path"]
    module, _, look = request["look"].partition(":")
    try:
        name += f" {metadata.version(request['distribution'])}"
        _limit(Path(path).stat().st_size, request["seconds"])
        return {"library": name, "reading": getattr(import_module(module), look)(path)}
    except metadata.PackageNotFoundError:
        return {"library": name, "reason": "not installed", "absent": True}
    except ImportError as error:
        reason = f"it cannot be imported: {_describe(error)}"
        return {"library": request["library"], "reason": reason, "absent": True}
    except MemoryError:
        return {"library": name, "reason": "it takes too much memory"}
    except Exception as error:
        return {"library": name, "reason": _describe(error)}


def _limit(size: int, seconds: int) -> None:
    """Limit address space, and CPU time from now on, if the system supports limits."""
    if sys.platform != "win32":
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        limits = {
            resource.RLIMIT_AS: _BASE + _TIMES * size,
            resource.RLIMIT_CPU: int(used) + seconds,
        }
        for kind, soft in limits.items():
            _, hard = resource.getrlimit(kind)
            # macOS rejects some limits; a limit above the hard one is rejected, too
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(kind, (soft, hard))


def _describe(error: Exception) -> str:
    """Return the library's message in one line; it may quote text of a package."""
    words = " ".join(str(error).split())
    return cut(one_line(f"{type(error).__name__}: {words}" if words else type(error).__name__), 200)
