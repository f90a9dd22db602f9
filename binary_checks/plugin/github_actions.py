"""GitHub Actions: every run there annotates its commit and writes a job summary."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from binary_checks.model import RunResult
from binary_checks.plugin.session import SESSION
from binary_checks.reports import github, markdown
from binary_checks.safe_text import one_line

_LEAST = 1 << 10  # least number of bytes for which a summary is written


def is_wanted(config: pytest.Config) -> bool:
    """Return whether this is the main process of a run on GitHub, unless the option is off."""
    there = os.environ.get("GITHUB_ACTIONS") == "true"
    return there and config.option.binary_github == "auto" and not hasattr(config, "workerinput")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around all other hooks: after pytest's own summary
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Write annotations and summary after everything else."""
    yield
    state = session.config.stash.get(SESSION, None)
    if state is not None and state.result is not None and not session.config.option.collectonly:
        _annotate(state.result)
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            _summarise(state.result, Path(path))


def _annotate(run: RunResult) -> None:
    out = io.StringIO()
    github.write(run, out)
    _print(out.getvalue())


def _print(text: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    with contextlib.suppress(OSError):  # if nobody reads the output, the run's end is not affected
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()


def _summarise(run: RunResult, path: Path) -> None:
    """Append to the step's summary as much text as GitHub accepts."""
    try:
        size = path.stat().st_size if path.exists() else 0
        most = markdown.LARGEST_SUMMARY - size
        if most >= _LEAST:
            with path.open("a", encoding="utf-8", newline="\n") as file:
                markdown.write_job_summary(run, file, most)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        _print(f"{one_line(f'the job summary cannot be written: {path}: {reason}')}\n")
