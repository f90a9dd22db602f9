"""What tests and fixtures share: the plugin under test, and pytest's own tester of plugins.

The plugin is loaded here and not by its entry point (``-p no:binary_checks`` in pyproject.toml):
coverage has started by now, and the code that runs is the one of this checkout or of the wheel
that was installed, whichever is first on the path.
"""

import contextlib
import gc
import os
from pathlib import Path

import pytest

os.environ.pop("GITHUB_ACTIONS", None)  # else packages of tests would annotate our own commits
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process that a test starts compiles us

with contextlib.suppress(ImportError):  # the Windows Python of `nox -s wine` has no Hypothesis
    from hypothesis import HealthCheck, settings

    # No change fails for a find that another made: every run tries the same examples, however slow
    # the machine is. `nox -s search` looks for others.
    same = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("search", **same)
    settings.register_profile("same", derandomize=True, database=None, **same)
    settings.load_profile("same")

# the fuzzer forks, and limits memory as POSIX does
collect_ignore_glob = [] if os.name == "posix" else ["tests/fuzz/*"]
pytest_plugins = ["binary_checks.plugin", "pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let `pytest --quick` run the tests that fixtures/quick.py has chosen."""
    parser.addoption("--quick", action="store_true", help="the fewest tests that run every line")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that were not chosen; the list may name some that are no more."""
    if config.getoption("--quick"):
        listed = Path(__file__).with_name("fixtures") / "quick.txt"
        chosen = frozenset(listed.read_text(encoding="utf-8").splitlines())
        config.hook.pytest_deselected(items=[each for each in items if each.nodeid not in chosen])
        items[:] = [each for each in items if each.nodeid in chosen]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Start one worker more than there are cores: tests often wait for processes."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


def pytest_collection_finish() -> None:
    """Spare the garbage collector the collected tests, which live until the end."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let go of them, or extension modules complain about leaks as the process ends."""
    gc.unfreeze()
