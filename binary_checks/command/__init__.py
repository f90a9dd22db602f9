"""The ``binary-checks`` command, which runs nothing that it finds in the current folder."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

from binary_checks import errors
from binary_checks.errors import BinaryChecksError, GatherError, ProfileError, StoreError
from binary_checks.options import Program
from binary_checks.safe_text import cut, one_line

SUBCOMMANDS = {
    "artifact": "binary_checks.command.actions:ARTIFACT.run",
    "diff": "binary_checks.command.diff:run",
    "cells": "binary_checks.command.cells:run",
    "ci": "binary_checks.command.actions:CI.run",
    "hud": "binary_checks.command.hud:run_hud",
    "inspect": "binary_checks.command.inspect:run_inspect",
    "known": "binary_checks.command.actions:KNOWN.run",
    "nightly": "binary_checks.command.actions:NIGHTLY.run",
    "query": "binary_checks.command.query:run",
    "report": "binary_checks.command.report:run",
}
"""The functions of subcommands, loaded when called: they take the remaining arguments and return
the exit status.

Without a subcommand, packages are checked.
"""
UNREADABLE, INTERRUPTED = errors.PROBLEMS, errors.INTERRUPTED
MISUSED, TRY_AGAIN = errors.MISUSED, errors.TRY_AGAIN
_OF_DISKS = frozenset({errno.ENOSPC, errno.EFBIG, errno.EIO, getattr(errno, "EDQUOT", errno.EIO)})
_FILES = 32  # files that are open at once while a package is judged, and some more
_LONGEST = 4096
"""Largest number of characters of an argument: PATH_MAX of Linux."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand or check the named packages; return the exit status."""
    from binary_checks.command.hidden_environment import receive_hidden, take_start
    from binary_checks.fleet.lifelines import LIFELINE, watch_lifeline
    from binary_checks.processes import user_environment

    alone, started = arguments is None, take_start()
    if alone:
        receive_hidden()
        if lifeline := user_environment().get(LIFELINE):
            watch_lifeline(lifeline)
        signal.signal(signal.SIGTERM, _interrupt)
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    _exclude_current_folder()
    if refusal := next(filter(None, map(_refuse, arguments)), ""):
        complain(refusal)
        return MISUSED
    if 0 <= (most := _find_most_files()) < _FILES:
        complain(f"this process may open {most} files at once, but needs {_FILES}: raise ulimit -n")
        return TRY_AGAIN
    try:
        status = _run(arguments, started, alone=alone)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as error:
        complain(f"interrupted: {error}" if str(error) else "interrupted")
    except BrokenPipeError:  # as in `| head`: the reader wants no more
        pass
    except OSError as error:
        return report_unwritten_output(error)
    _discard_output()
    return INTERRUPTED


def _find_most_files() -> int:
    """Return how many files this process may open at once; -1 for any number."""
    if sys.platform == "win32":
        return -1
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def _interrupt(number: int, _: object) -> NoReturn:
    """End the command in an orderly way, as Ctrl-C does.

    Otherwise a cancelled job would leave environments behind, and processes whose import never
    ends: pytest cleans up when it is interrupted, and handles no other signal.
    """
    raise KeyboardInterrupt(signal.Signals(number).name)


def report_unwritten_output(error: OSError) -> int:
    """Print why output is lost, and stop printing; return the exit status."""
    complain(_explain(error))
    _discard_output()
    return TRY_AGAIN


def _explain(error: Exception) -> str:
    """Return the reason for an error.

    For a full or broken disk Python names no file, so the reason says which output failed.
    """
    if isinstance(error, OSError) and error.filename is None and error.errno in _OF_DISKS:
        return f"standard output or a temporary file cannot be written: {error.strerror}"
    return str(error)


def _discard_output() -> None:
    """Discard the remaining output: writing it would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _prepare_streams() -> None:
    """Make both streams writable, and escape characters that the locale lacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller closed it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _refuse(argument: str) -> str:
    """Return the reason to refuse an argument that pytest would print unescaped, or ""."""
    if len(argument) > _LONGEST:
        most = f"at most {_LONGEST:,} are allowed"
        return f"an argument of {len(argument):,} characters; {most}: {argument}"
    if one_line(argument) == argument or _is_package(argument.split("::", 1)[0]):
        return ""
    return f"an argument with control characters or commands to a build service: {argument}"


def _is_package(name: str) -> bool:
    from binary_checks.packages import recognises

    return recognises(Path(name))


def _exclude_current_folder() -> None:
    """Never look for programs in the current folder: pip runs rustc and uname.

    Windows searches the current folder first, POSIX if an element of PATH is empty or relative.
    """
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = [part for part in parts if Path(part).is_absolute()]
    # An empty value would also mean the current folder.
    os.environ["PATH"] = os.pathsep.join(kept or ["/usr/bin", "/bin"])
    os.environ["NODEFAULTCURRENTDIRECTORYINEXEPATH"] = "1"  # honoured by shutil since Python 3.12


def _run(arguments: Sequence[str], started: float, *, alone: bool) -> int:
    if arguments and arguments[0] in SUBCOMMANDS:
        run: Callable[[Sequence[str]], int] = resolve_name(SUBCOMMANDS[arguments[0]])
        return guard(lambda: run(arguments[1:]))
    status = _answer(arguments)
    if status is not None:
        return status
    from binary_checks.command.check import check, print_all_options

    if "--help-pytest" in arguments:
        return print_all_options()
    return check(arguments, started=started, alone=alone)


def _answer(arguments: Sequence[str]) -> int | None:
    """Answer a question about the command itself; return None if packages must be checked."""
    if arguments and arguments[0] == "help":
        arguments = ["--help"]
    options = {each for each in arguments if each.startswith("-")}
    if "--list" in options:
        from binary_checks.command.inspect import run_list

        return guard(lambda: run_list([each for each in arguments if each != "--list"]))
    if arguments and not options & {"-h", "--help", "-V", "--version"}:
        return _refuse_subcommand(arguments[0])
    from binary_checks.command.helping import HELP, format_version

    if options & {"-V", "--version"}:
        print(format_version())
        return 0
    print(HELP, end="", file=sys.stdout if arguments else sys.stderr)
    return 0 if arguments else MISUSED


def _refuse_subcommand(name: str) -> int | None:
    """Refuse a word that can only be a mistyped subcommand: a package's name contains a dot."""
    hint = suggest(name, (*SUBCOMMANDS, "help")) if name.isalpha() else ""
    if not hint or Path(name).exists():
        return None
    complain(f"{name}: neither a package nor a subcommand{hint}")
    return MISUSED


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a question that suggests the closest of the known names; "" if none is close."""
    close = get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def complain(text: str) -> None:
    """Print in one line why the command ends."""
    with contextlib.suppress(OSError):  # if stderr is on a full disk, only the exit status remains
        message = Program.COMMAND.name_options(f"binary-checks: {text}")
        print(cut(one_line(message)), file=sys.stderr)


def status_of(error: Exception) -> int:
    """Return the exit status for an error, which depends on its cause."""
    if isinstance(error, ProfileError):
        return MISUSED
    return TRY_AGAIN if isinstance(error, (GatherError, StoreError, OSError)) else UNREADABLE


def guard(act: Callable[[], int], *further: type[OSError]) -> int:
    """Call ``act`` and return its exit status.

    For an error of ours, or of a class in ``further``, print the error and return the status for
    it. A closed pipe, as with ``| head``, is left to `main`, which prints nothing.
    """
    caught: tuple[type[Exception], ...] = (BinaryChecksError, *further)
    try:
        return act()
    except BrokenPipeError:
        raise
    except caught as error:
        complain(_explain(error))
        return status_of(error)


def read_input(named: str, most: int, where: str) -> bytes:
    """Return the contents of a file that the user named, or of standard input for ``-``.

    Raises ProfileError if it cannot be read or has more than ``most`` bytes.
    """
    from binary_checks.files import read_named

    if named != "-":
        return read_named(Path(named), most, where)
    content = sys.stdin.buffer.read(most + 1)
    if len(content) > most:  # if it were cut off, it could mean something else
        raise ProfileError(f"{where}: more than {most:,} bytes")
    return content


def read_count(text: str) -> int:
    """Read the value of an option that must be 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is not a number of 1 or more")
    return int(text)


class SubcommandParser(argparse.ArgumentParser):
    """A parser that raises ProfileError for a wrong option, and accepts pytest's names, too."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; ``--binary-with`` means ``--with``."""
        given = sys.argv[1:] if args is None else args
        return super().parse_known_args(map(Program.COMMAND.name_options, given), namespace)

    def add_store(self, more: str = "", *, required: bool = True) -> None:
        """Add ``--store``, which nearly every subcommand of the fleet needs."""
        self.add_argument(
            "--store",
            metavar="URL",
            required=required,
            help=f"a folder, or s3://bucket/prefix (or gs://, az://){more}",
        )

    def add_where(self) -> None:
        """Add ``--where``, a condition on axes; its default "" selects all."""
        self.add_argument(
            "--where",
            metavar="CONDITION",
            default="",
            help='only cells that match these globs: "variant=cu* python=3.13*"',
        )

    def add_date(self) -> None:
        """Add ``--date``, a night of the store; its default "" is the newest."""
        self.add_argument(
            "--date",
            metavar="DATE",
            default="",
            help="the night, as 2026-11-20 (default: the newest)",
        )

    def error(self, message: str) -> NoReturn:
        """Raise ProfileError with the name of the subcommand and the closest option."""
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message and unknown.startswith("-"):
            name = unknown.split()[0].partition("=")[0]
            known = re.findall(r"--[a-z][a-z-]+", self.format_help())
            message = f"unknown option {name}{suggest(name, known)}"
        raise ProfileError(f"{self.prog.removeprefix('binary-checks ')}: {message}")
