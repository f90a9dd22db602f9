"""A package that takes too long, or too much memory, fails; the other checks go on.

No test measures time: the bounds are so small that any step exceeds them, or already exceeded.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binary_checks import examine, judge, watchdog
from binary_checks.declaring import check
from binary_checks.errors import TooLarge
from binary_checks.model import Finding, Level, Outcome, Package
from binary_checks.trees import batches
from binary_checks.watchdog import OutOfTime, Watchdog, ask
from tests.plugin.conftest import IN_A_WORKER, NAME, Run, healthy, start_command

OWN = """
import re
import subprocess
import sys
from collections.abc import Iterator
from binary_checks import check, gathers
from binary_checks.model import Finding, Wheel

class Slow:
    "Never known."

@gathers(Slow)
def find_slow(wheel: Wheel) -> Slow:
    re.match(r"(a|aa)+$", "a" * 99 + "b")
    return Slow()

@check
def hangs(wheel: Wheel) -> Iterator[Finding]:
    "It hangs.\\n\\nWhy: x.\\n\\nFix: y."
    re.match(r"(a|aa)+$", "a" * 99 + "b")
    yield "never"

@check
def needs_slow(wheel: Wheel, slow: Slow) -> Iterator[Finding]:
    "It needs a slow fact.\\n\\nWhy: x.\\n\\nFix: y."
    yield "never"

@check
def limits(wheel: Wheel) -> Iterator[Finding]:
    "It states limits.\\n\\nWhy: x.\\n\\nFix: y."
    import resource
    usual = resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY
    script = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout
    yield f"the command: {not usual}, its processes: {int(other) != resource.RLIM_INFINITY}"

@check
def hoards(wheel: Wheel) -> Iterator[Finding]:
    "It takes memory.\\n\\nWhy: x.\\n\\nFix: y."
    kept = []
    while True:
        kept.append(b"x" * (64 << 20))
"""
needs_timer = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer on Windows")
needs_limit = pytest.mark.skipif(sys.platform != "linux", reason="no limit on memory")


def own_profile(folder: Path) -> None:
    (folder / "own.py").write_text(OWN)
    (folder / "own.toml").write_text('checks = ["own.py"]\n')


def spin() -> None:
    while True:
        pass


def search() -> None:
    re.match(r"(a|aa)+$", "a" * 99 + "b")


def watch(step: Callable[..., object], *arguments: object) -> str:
    """Return the reason why the step is too large."""
    with pytest.raises(TooLarge) as caught:
        Watchdog().call("the check mine", step, *arguments)
    return str(caught.value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a package take a hundredth of a second, and ring again after another."""
    monkeypatch.setattr(watchdog, "SECONDS", 0.01)
    monkeypatch.setattr(watchdog, "_AGAIN", 0.01)


@pytest.mark.usefixtures("small")
@needs_timer
@pytest.mark.parametrize("step", [spin, search])
def test_a_loop_and_a_regular_expression_without_end_are_interrupted(
    step: Callable[[], None],
) -> None:
    reason = "the check mine takes more CPU time than the package's size allows"
    assert watch(step) == reason


@pytest.mark.usefixtures("small")
@needs_timer
def test_what_hangs_fails_by_name_and_all_else_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SECONDS", 0.5)
    own_profile(tmp_path)
    judged = {"hangs", "needs-slow", "missing-library", "record-is-wrong"}
    with examine(healthy(tmp_path), profile=tmp_path / "own.toml") as examination:
        chosen = [each for each in examination.checks if each.id in judged]
        verdicts = {each.check: each for each in judge(examination, chosen)}
    sentence = "too large to inspect: {} takes more CPU time than the package's size allows"
    failed = {name: each for name, each in verdicts.items() if each.outcome is Outcome.FAILED}
    assert {name: [each.sentence for each in found.problems] for name, found in failed.items()} == {
        "hangs": [sentence.format("the check hangs")],
        "needs-slow": [sentence.format("gathering Slow")],
    }
    assert {each.outcome for name, each in verdicts.items() if name not in failed} == {
        Outcome.PASSED
    }


@pytest.mark.usefixtures("small")
@needs_timer
def test_a_warning_that_cannot_be_judged_fails_too(tmp_path: Path) -> None:
    @check(level=Level.WARNING)
    def mine(package: Package) -> Iterator[Finding]:
        """It hangs."""
        spin()
        yield "never"

    with examine(healthy(tmp_path)) as examination:
        verdicts = list(judge(examination, [mine]))
    assert [each.outcome for each in verdicts] == [Outcome.FAILED]


@pytest.mark.usefixtures("small")
@needs_timer
def test_no_exception_handler_of_a_check_hides_the_end_of_its_time() -> None:
    def endure() -> None:
        while True:
            with suppress(Exception):
                spin()

    assert "CPU time" in watch(endure)


@pytest.mark.usefixtures("small")
@needs_timer
def test_a_finalizer_that_swallows_the_interruption_only_delays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow:
        def __del__(self) -> None:
            spin()

    def drop() -> None:
        Slow()
        spin()

    swallowed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda each: swallowed.append(each.exc_type))
    assert "CPU time" in watch(drop)
    assert swallowed == [OutOfTime]


@pytest.mark.usefixtures("small")
@needs_timer
def test_a_module_is_imported_completely_before_the_step_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import time\nwhile time.process_time() < 0.1 + {}: pass\nwhole = True\n"
    (tmp_path / "slowly_imported.py").write_text(text.format(time.process_time()))
    monkeypatch.syspath_prepend(tmp_path)

    def load() -> None:
        import_module("slowly_imported")
        spin()

    assert "CPU time" in watch(load)
    assert sys.modules.pop("slowly_imported").whole


@pytest.mark.usefixtures("small")
@needs_timer
def test_one_step_that_hangs_leaves_time_for_the_others() -> None:
    dog = Watchdog()
    for number in range(5):
        with pytest.raises(TooLarge, match=f"step {number} takes"):
            dog.call(f"step {number}", spin)
        assert dog.call("short", len, "four") == 4


@pytest.mark.usefixtures("small")
def test_bytes_and_objects_that_were_read_and_a_factor_extend_the_bound() -> None:
    for extension in ({"size": 10_000_000}, {"objects": 100}):
        Watchdog().call("reading", lambda more=extension: (ask(**more), busy()))
    Watchdog(1000).call("reading", busy)
    assert "reading" not in watch(lambda: (ask(size=1, objects=1), busy()))


def busy() -> None:
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass


@pytest.mark.usefixtures("small")
def test_a_thread_that_inflates_ends_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "count_cores", lambda: 2)

    def visit(_: int) -> Any:
        while True:  # as for a member without an end
            ask()

    entries: Any = [SimpleNamespace(size=9 << 20)] * 2
    before = threading.active_count()
    assert "CPU time" in watch(batches.visit_all, entries, visit, None)
    for thread in threading.enumerate():  # the second interruption ends the wait for their end
        if thread is not threading.current_thread() and thread.name.startswith("binary-checks"):
            thread.join(60)
    assert threading.active_count() == before


def test_a_thread_that_outlives_its_step_ends() -> None:
    def ask_forever() -> None:
        with suppress(OutOfTime):
            while True:
                ask()

    thread = threading.Thread(target=lambda: None)

    def leave_a_thread() -> None:
        nonlocal thread
        thread = threading.Thread(target=copy_context().run, args=(ask_forever,), daemon=True)
        thread.start()

    Watchdog().call("leaving", leave_a_thread)
    thread.join(60)
    assert not thread.is_alive()


@needs_timer
@pytest.mark.usefixtures("small")
def test_another_user_of_the_timer_gets_it_back() -> None:
    def profile(_: int, __: object) -> None:
        """Sample the stack."""

    before = signal.signal(signal.SIGPROF, profile)
    signal.setitimer(signal.ITIMER_PROF, 1000, 500)
    try:
        watch(spin)
        assert signal.getsignal(signal.SIGPROF) is profile
        left, interval = signal.getitimer(signal.ITIMER_PROF)
        assert left > 900
        assert interval == 500
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@needs_timer
@pytest.mark.usefixtures("small")
def test_a_package_that_is_examined_by_a_check_has_bounds_of_its_own() -> None:
    outer = Watchdog(1000)

    def examine_another() -> str:
        return watch(spin)

    assert "the check mine" in outer.call("outer", examine_another)
    with pytest.raises(TooLarge, match="the outer step"):
        Watchdog().call("the outer step", Watchdog(1000).call, "inner", busy)


# Windows, and threads: nothing interrupts a step.


def turn(*steps: Callable[[], object]) -> None:
    while True:
        for step in steps:
            step()


@pytest.mark.usefixtures("small")
def test_without_a_timer_a_step_asks_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "setitimer", raising=False)
    assert "CPU time" in watch(turn, ask)
    assert "CPU time" in watch(busy)  # it does not ask, but it has taken too long


@pytest.mark.usefixtures("small")
def test_a_thread_asks_for_itself() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert "CPU time" in pool.submit(watch, turn, ask).result()


# Memory: only the command limits it, and only its own.


@needs_limit
def test_the_command_limits_its_memory(tmp_path: Path) -> None:
    healthy(tmp_path)
    own_profile(tmp_path)
    asked = ("-k", "hoards or limits", "--static", "--profile", "own.toml")
    done = start_command(tmp_path, *asked, NAME)
    assert done.returncode == 1, done.stderr
    assert "limits: " in done.stdout
    assert "the command: True, its processes: False" in done.stdout
    assert "the check hoards takes more memory than the package's size allows" in done.stdout


@needs_limit
def test_under_pytest_memory_is_not_limited(pytester: pytest.Pytester, run: Run) -> None:
    healthy(pytester.path)
    own_profile(pytester.path)
    result = run(NAME, "-k", "limits", "--binary-profile", "own.toml")
    result.stdout.fnmatch_lines(["limits: *the command: False, its processes: False"])


@needs_timer
@pytest.mark.parametrize("workers", [pytest.param((), id="alone"), IN_A_WORKER])
def test_workers_of_xdist_are_interrupted_too(
    pytester: pytest.Pytester, run: Run, workers: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "SECONDS", 0.2)  # in this process, also after the run
    healthy(pytester.path)
    own_profile(pytester.path)
    (pytester.path / "conftest.py").write_text(
        "from binary_checks import watchdog\nwatchdog.SECONDS = 0.5\n"
    )
    result = run(NAME, "-k", "hangs", "--binary-profile", "own.toml", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"hangs: {NAME}: too large to inspect: the check hangs takes *"])
