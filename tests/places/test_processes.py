"""A process is run for a limited time, in a clean environment, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path
from textwrap import indent

import pytest

from binary_checks.errors import GatherError
from binary_checks.model import Ending
from binary_checks.places.processes import (
    ProcessResult,
    name_crash,
    read_answer,
    read_stack,
    run_process,
)
from binary_checks.places.running import ProbeAnswer, find_places, make_environment, run_probe
from binary_checks.probes import process


def python(code: str, folder: Path, timeout: float = 60) -> ProcessResult:
    return run_process((sys.executable, "-c", code), cwd=folder, env={}, timeout=timeout)


def test_status_and_output_are_told_and_standard_input_is_empty(tmp_path: Path) -> None:
    code = "import sys; print([sys.stdin.read()]); print('err', file=sys.stderr); sys.exit(3)"
    ended = python(code, tmp_path)
    assert (ended.status, ended.stdout.strip(), ended.stderr.strip()) == (3, "['']", "err")


def test_the_beginning_and_the_end_of_much_output_are_kept(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('first' + '.' * 10_000_000 + 'last')"
    text = python(code, tmp_path).stderr
    assert (text[:5], text[-4:]) == ("first", "last")
    assert len(text) <= 64 * 1024


def test_a_process_that_goes_on_for_ever_has_no_status(tmp_path: Path) -> None:
    assert python("import time; time.sleep(600)", tmp_path, timeout=0.3).status is None


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (0, ""),
        (3, ""),
        (-11, "SIGSEGV"),
        (-200, "signal 200"),
        (0xC0000005, "access violation"),
        (0xC0000135, "a needed DLL was not found"),
        (0xC0FFEE00, "status 0xc0ffee00"),
    ],
)
def test_a_crash_has_a_name(status: int, name: str) -> None:
    assert name_crash(status) == name


FAULT = """Fatal Python error: Segmentation fault

Thread 0x0001 (most recent call first):
  File "/x/threading.py", line 9 in wait

Current thread 0x0002 (most recent call first):
  File "/x/demo/core.py", line 7 in <module>
  File "/x/demo/__init__.py", line 1 in <module>
"""


def test_the_stack_of_a_crash_is_that_of_its_own_thread() -> None:
    expected = ("/x/demo/core.py:7 in <module>", "/x/demo/__init__.py:1 in <module>")
    assert find_places(FAULT) == expected
    assert find_places("nothing of the kind") == ()


PROCESS = Path(process.__file__)


def probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> ProbeAnswer:
    script = tmp_path / "mine" / "script.py"
    script.parent.mkdir()
    script.write_text(f"def probe(request, recorder, process):\n{indent(code, '    ')}")
    (tmp_path / "process.py").write_bytes(PROCESS.read_bytes())
    monkeypatch.setattr(resources, "files", lambda package: tmp_path)
    return run_probe(Path(sys.executable), "mine", {"x": 1}, timeout=60)


def test_a_probe_runs_isolated_and_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "SECRET"):
        monkeypatch.setenv(name, str(tmp_path))
    code = (
        "import os, sys\n"
        "recorder.finish({'names': sorted(os.environ), 'files': os.listdir(), 'path': sys.path,"
        " 'flags': [sys.flags.isolated, sys.flags.dont_write_bytecode]})\n"
    )
    answer = probe(tmp_path, monkeypatch, code).answer
    assert (answer["files"], answer["flags"]) == ([], [1, 1])
    assert str(tmp_path) not in answer["path"]
    leaked = {"PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "SECRET"}
    assert leaked.isdisjoint(answer["names"])


def test_what_was_written_before_a_crash_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "import os\nrecorder({'known': 1})\nos.abort()\n"
    result = probe(tmp_path, monkeypatch, code)
    assert (dict(result.answer), result.outcome) == ({"known": 1}, Ending.CRASHED)


@pytest.mark.parametrize("text", ["", "{", "[1]", "\ufffd", "[" * 100_000])
def test_an_answer_that_is_none_is_empty(text: str) -> None:
    assert read_answer(text.encode()) == {}


def test_an_answer_without_end_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = probe(tmp_path, monkeypatch, "recorder.finish({'long': 'x' * (17 << 20)})\n")
    assert (dict(result.answer), result.outcome) == ({}, Ending.EXITED)


def test_an_interpreter_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(GatherError, match="gone: cannot be run"):
        run_probe(tmp_path / "gone", "identify", {}, timeout=5)


def test_on_windows_a_probe_keeps_the_system_folders_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setenv("SYSTEMROOT", r"D:\Windows")
    environment = make_environment(tmp_path)
    assert environment["PATH"] == r"D:\Windows\System32;D:\Windows"
    assert {environment["TEMP"], environment["USERPROFILE"]} == {str(tmp_path)}


# What debuggers write of a native stack.


GDB = """\
[Thread debugging using libthread_db enabled]
#0  0x00007f5ae6941b3b in std::basic_string<char, T<char> >::find(char const*) const () from /l.so
#1  0x00007f5a6c573703 in ?? () from /site-packages/nvidia/cu13/lib/libcufile.so.0
#2  0x00007f5a6c4c3c41 in cuFileBufRegister () from /site-packages/nvidia/cu13/lib/libcufile.so.0
#3  PyObject_Vectorcall (callable=0x7f5a55572390, kwnames=0x0) at Objects/call.c:299
#4  (anonymous namespace)::wait (seconds=3) at wait.cpp:3
#5  0x0000000000000000 in ?? ()
[Inferior 1 (process 13796) detached]
"""
EU_STACK = """\
PID 13796 - process
TID 13796:
#0  0x00007f602ba8fb80 __libc_pause
#1  0x00007f602ba8f000
#2  0x00007f602bb8fb80 _PyEval_EvalFrameDefault
"""


def test_the_frames_of_gdb_and_elfutils_are_read_with_names_of_a_readable_length() -> None:
    assert read_stack(GDB) == (
        "std::basic_string<char, T<char> >::find",
        "?? of libcufile.so.0",
        "cuFileBufRegister",
        "PyObject_Vectorcall",
        "(anonymous namespace)::wait",
    )
    assert read_stack(EU_STACK) == ("__libc_pause", "_PyEval_EvalFrameDefault")
    (name,) = read_stack(f"#0  0x0000000000000001 in {'f' * 500} () from /lib/libf.so\n")
    assert name == "f" * 80


def test_what_is_no_stack_has_no_frames() -> None:
    assert read_stack("ptrace: Operation not permitted.\n") == ()
