"""The process that answers one question, and ends with the one that asks: JSON in, the answer out.

A SELECT of a few characters can ask for any amount of memory, and DuckDB counts only what its
tables take. So the system bounds the whole process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any

from binary_checks.command.asking_apart import READY, named
from binary_checks.command.query_process import write_csv, write_json, write_markdown, write_table
from binary_checks.errors import ProfileError
from binary_checks.fleet.store import open_store
from binary_checks.fleet.stored_nights import closed_nights
from binary_checks.fleet.tables.table_questions import ask
from binary_checks.fleet.tables.views import open_tables

_MEMORY = 512 << 20  # bytes: Python, DuckDB and 150 MB for its tables take less than half
_FORMS = {"table": write_table, "csv": write_csv, "markdown": write_markdown, "json": write_json}


def main() -> int:
    """Answer the question that standard input states; returns the exit status."""
    asked = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace") as output:
        return named(lambda: _answer(asked, output))


def _answer(asked: Mapping[str, Any], output: IO[str]) -> int:
    store, project = open_store(asked["store"]), asked["project"]
    last = closed_nights(store)[-asked["nights"] :] or None if asked["nights"] else None
    with open_tables(store, nights=last, project=project, apart=not asked["ours"]) as connection:
        if project and connection.execute("FROM cells LIMIT 1").fetchone() is None:
            raise ProfileError(f"--project {project!r:.80}: no cell of it in {store.url}")
        os.write(1, READY)
        _limit()
        try:
            with ask(connection, asked["sql"], asked["given"], ours=asked["ours"]) as answer:
                for line in _FORMS[asked["form"]](answer):
                    output.write(line)
                output.flush()
        except MemoryError:
            raise ProfileError(f"SQL: the answer takes more than {_MEMORY >> 20} MiB") from None
    return 0


def _limit() -> None:
    """Bound the memory that is not of files; Linux alone refuses what is beyond."""
    if sys.platform != "win32":
        import resource

        for kind, most in ((resource.RLIMIT_DATA, _MEMORY), (resource.RLIMIT_CORE, 0)):
            with suppress(OSError, ValueError):  # it has less anyway
                resource.setrlimit(kind, (most, most))


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds open, however it was ended."""
    with suppress(OSError):
        os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
