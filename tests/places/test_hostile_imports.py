"""A package that crashes, hangs, forks, floods or deletes itself still leaves a full report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.model import Ending, Step
from binary_checks.probes.import_name.reader import import_each
from fixtures.build_wheel import build_wheel
from fixtures.environments import (
    PURE,
    FilledPlace,
    demand_sandbox,
    list_sandbox_modes,
    open_offline,
    within,
)

posix = pytest.mark.skipif(os.name != "posix", reason="only POSIX lets a folder in use go")
WINDOWS = sys.platform == "win32"

MODULES = {
    "good": "__version__ = '1.0'\n",
    "segfaults": "import faulthandler\ndef fall(): faulthandler._read_null()\nfall()\n",
    "aborts": "import os\nos.abort()\n",
    "loops": "def spin():\n    while True: pass\nspin()\n",
    "beats": """
import subprocess, sys, time
NEW = {"creationflags": 0x208} if sys.platform == "win32" else {"start_new_session": True}
def start(name, folder):
    subprocess.Popen([sys.executable, "-I", __file__, name, folder], **NEW)
if __name__ == "__main__":
    name, folder = sys.argv[1:]
    if name == "child":
        start("grandchild", folder)
    while True:
        with open(folder + "/" + name, "a") as file:
            file.write("x")
        time.sleep(0.02)
""",
    "spawns": """
import beats, os, time
beats.start("child", {folder!r})
while not os.path.exists({folder!r} + "/grandchild"):
    time.sleep(0.02)
""",
    "floods": "import sys\nfor _ in range(4096): sys.stderr.write('x' * 16384)\n{}['it']\n",
    "wraps": "try: import absent\nexcept ImportError as e: raise ImportError('get it') from e\n",
    "never_ends": "import threading as t, time\nt.Thread(target=time.sleep, args=(600,)).start()\n",
    "long_line": "raise ValueError('y' * 10_000_000)\n",
    "leaves": "import os\nos._exit(3)\n",
    "leaves_quietly": "import os\nos._exit(0)\n",
    "exits": "import sys\nsys.exit(4)\n",
    "deletes": "import os\nos.remove(__file__)\n",
    "rewrites": "open(__file__, 'a').write('# more')\n",
    "moves": "import os\nos.chdir('/')\n",
    "lost": "import os\nos.rmdir(os.getcwd())\n",
    "needs": "import absent.module\n",
    "mute": "class Mute(Exception):\n    def __str__(self): raise Mute()\nraise Mute()\n",
    "odd_version": "def __getattr__(name): raise RuntimeError(name)\n",
    "prints": "import sys\nsys.stderr.write('a note\\n')\n",
    "silent": "import os\nos.close(1)\nos.close(2)\n",
}


@pytest.fixture(scope="module", params=list_sandbox_modes())
def environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilledPlace]:
    sandbox = demand_sandbox(request.param)
    folder = tmp_path_factory.mktemp("hostile")
    texts = {**MODULES, "spawns": MODULES["spawns"].format(folder=str(folder))}
    members = {f"{name}.py": text for name, text in texts.items()}
    wheel = build_wheel(folder, name="hostile", tags=PURE, members=members)
    with open_offline(wheel, sandbox=sandbox) as opened:
        yield opened


def import_one(environment: FilledPlace, name: str, timeout: float = 60) -> Step:
    (step,) = import_each(within(environment, timeout), (name,)).steps
    assert str(Path(environment.folder)) not in repr(step)
    return step


def test_a_healthy_module_is_imported_from_where_it_was_installed(environment: FilledPlace) -> None:
    step = import_one(environment, "good")
    assert (step.outcome, step.origin, step.version) == (Ending.OK, "good.py", "1.0")
    assert step.directory_changed == step.stderr == step.detail == ""
    member = next(item for item in environment.wheel.members if item.archive_name == "good.py")
    assert step.origin_sha256 == member.sha256


@pytest.mark.parametrize(
    ("name", "outcome", "detail"),
    [
        (
            "segfaults",
            Ending.CRASHED,
            f"{'access violation' if WINDOWS else 'SIGSEGV'} at segfaults.py:2 in fall",
        ),
        (
            "aborts",
            Ending.CRASHED,
            f"{'exit status 3' if WINDOWS else 'SIGABRT'} at aborts.py:2 in <module>",
        ),
        ("leaves", Ending.EXITED, "exit status 3"),
        ("leaves_quietly", Ending.EXITED, "exit status 0"),
        ("exits", Ending.EXITED, "SystemExit(4)"),
    ],
)
def test_an_import_that_crashes_or_ends_the_process_is_no_success(
    environment: FilledPlace, name: str, outcome: Ending, detail: str
) -> None:
    step = import_one(environment, name)
    assert (step.outcome, step.detail, step.finished) == (outcome, detail, False)


def test_an_endless_loop_is_stopped_and_its_line_named(environment: FilledPlace) -> None:
    limit = 1.5 if os.name == "posix" else 5.5
    step = import_one(environment, "loops", timeout=limit)
    assert (step.outcome, step.detail) == (Ending.HUNG, f"{limit} s at loops.py:2 in spin")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not tell who left a session")
def test_programs_that_outlive_the_import_are_killed(environment: FilledPlace) -> None:
    if environment.sandbox.holds:
        pytest.skip("it leaves nothing that could be watched: no folder of the host is its own")
    assert import_one(environment, "spawns").outcome is Ending.OK
    beats = [environment.wheel.path.with_name(name) for name in ("child", "grandchild")]
    written = [beat.stat().st_size for beat in beats]
    time.sleep(0.5)
    assert [beat.stat().st_size for beat in beats] == written


def test_a_flood_on_stderr_is_cut_and_hides_nothing(environment: FilledPlace) -> None:
    step = import_one(environment, "floods")
    assert (step.outcome, step.detail) == (Ending.RAISED, "KeyError: 'it' (floods.py:3)")
    assert 0 < len(step.stderr) < 100_000


def test_a_very_long_message_is_cut(environment: FilledPlace) -> None:
    step = import_one(environment, "long_line")
    assert step.detail.startswith("ValueError: yyy")
    assert step.detail.endswith("(long_line.py:1)")
    assert len(step.detail) < 3000


def test_a_module_that_deletes_itself_has_no_hash(environment: FilledPlace) -> None:
    step = import_one(environment, "deletes")
    if environment.sandbox.holds:
        assert step.detail.startswith("OSError: [Errno 30] Read-only file system: 'deletes.py'")
        return
    assert (step.outcome, step.origin, step.origin_sha256) == (Ending.OK, "deletes.py", "")


def test_a_module_that_rewrites_itself_has_another_hash(environment: FilledPlace) -> None:
    step = import_one(environment, "rewrites")
    if environment.sandbox.holds:
        assert step.detail.startswith("OSError: [Errno 30] Read-only file system: 'rewrites.py'")
        return
    (member,) = (m for m in environment.wheel.members if m.archive_name == "rewrites.py")
    assert step.origin_sha256 not in {"", member.sha256}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("moves", "directory_changed", str(Path("/").resolve())),
        pytest.param("lost", "directory_changed", "a folder that no longer exists", marks=posix),
        ("mute", "detail", "Mute (mute.py:3)"),  # an exception without words
        ("odd_version", "version", ""),
        ("prints", "stderr", "a note"),
        ("silent", "detail", ""),
    ],
)
def test_what_is_odd_about_an_import_is_told(
    environment: FilledPlace, name: str, field: str, value: str
) -> None:
    step = import_one(environment, name)
    assert getattr(step, field) == value
    assert step.outcome is (Ending.RAISED if name == "mute" else Ending.OK)


@pytest.mark.parametrize(("name", "missing"), [("needs", "absent"), ("wraps", "absent")])
def test_a_missing_requirement_is_named(environment: FilledPlace, name: str, missing: str) -> None:
    step = import_one(environment, name)
    assert (step.outcome, step.missing_module) == (Ending.RAISED, missing)
    assert f"({name}.py:" in step.detail


@pytest.mark.slow
def test_a_process_that_never_ends_is_told_apart(environment: FilledPlace) -> None:
    step = import_one(environment, "never_ends", timeout=2 if os.name == "posix" else 6)
    assert (step.outcome, step.finished) == (Ending.HUNG, True)


def test_each_name_has_a_process_of_its_own(environment: FilledPlace) -> None:
    report = import_each(environment, ("leaves", "good"))
    assert [step.outcome for step in report.steps] == [Ending.EXITED, Ending.OK]
    assert report.python == environment.target.name
