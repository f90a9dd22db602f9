"""What debuggers write of a native stack is read: the names of functions, innermost first."""

from __future__ import annotations

from binary_checks.places.processes import read_stack

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
