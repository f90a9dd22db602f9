"""The ``binary-checks`` command: pytest with the plugin, deaf to the folder it runs in."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import NoReturn

import pytest

from binary_checks.errors import BinaryChecksError, NotApplicable, ProfileError, Unavailable
from binary_checks.gather.companions import Shelf
from binary_checks.gather.facts import Facts, Settings
from binary_checks.gather.subject import Subject
from binary_checks.lines import MOST_OF_A_RUN, cut, one_line
from binary_checks.model import Linkage, Package
from binary_checks.packages import recognises
from binary_checks.places import withheld
from binary_checks.plugin.alone import NOTHING
from binary_checks.plugin.sandboxing import StartsAnew
from binary_checks.profile.reading import find_profile, load_profile

_LONGEST = 4096
"""Characters of an argument: PATH_MAX of Linux."""
_XDIST = (
    *("-n", "--num", "-d", "--dist", "--max", "--loadscope", "--no-loadscope", "--testrun"),
    *("--tx", "--px", "--rsync", "-h", "--help"),
)
"""How options begin that are pytest-xdist's, or may be, which takes its time to be imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the packages named, or print the facts of one; returns the exit status."""
    alone = arguments is None
    if alone:
        withheld.take_back()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    _leave_out_the_folder()
    if refusal := next(filter(None, map(_refuse, arguments)), ""):
        _complain(refusal)
        return int(pytest.ExitCode.USAGE_ERROR)
    try:
        status = _run(arguments, alone=alone)
        sys.stdout.flush()
        return status
    except (OSError, KeyboardInterrupt) as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else it breaks at exit
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            _complain(f"{error}")  # a full disk behind stdout
        return int(pytest.ExitCode.INTERRUPTED)


def _refuse(argument: str) -> str:
    """Say what is wrong with an argument that pytest would repeat as it is; "" for nothing."""
    if len(argument) > _LONGEST:
        return f"an argument of {len(argument):,} characters, of at most {_LONGEST:,}: {argument}"
    if one_line(argument) == argument or recognises(Path(argument.split("::", 1)[0])):
        return ""
    return f"an argument with control characters or commands to a build service: {argument}"


def _leave_out_the_folder() -> None:
    """Let nobody look for programs in the current folder: pip asks rustc and uname who they are.

    Windows looks there first, POSIX where a part of PATH is empty or relative.
    """
    parts = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = [part for part in parts if Path(part).is_absolute()]
    # An empty one means the current folder, too.
    os.environ["PATH"] = os.pathsep.join(kept or ["/usr/bin", "/bin"])
    os.environ["NODEFAULTCURRENTDIRECTORYINEXEPATH"] = "1"  # heeded by shutil since Python 3.12


def _run(arguments: Sequence[str], *, alone: bool) -> int:
    if arguments[:1] == ["inspect"]:
        return inspect(arguments[1:])
    return check(arguments, alone=alone)


def check(arguments: Sequence[str], *, alone: bool = False) -> int:
    """Run pytest in this process on nothing but the given arguments.

    ``alone`` in it, it may start anew.
    """
    for name in ("PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        os.environ.pop(name, None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    if not arguments:
        _complain(NOTHING)
        return int(pytest.ExitCode.USAGE_ERROR)
    ini = resources.files("binary_checks") / "binary-checks.ini"
    own = ["-p", "binary_checks.plugin", "-p", "binary_checks.plugin.alone"]
    own += ["-p", "no:cacheprovider"]
    if any(argument.startswith(_XDIST) for argument in arguments):
        own += ["-p", "xdist.plugin"]
    place = ["-c", str(ini), "--rootdir", str(Path.cwd()), "--noconftest", "--assert=plain"]
    with contextlib.suppress(ValueError):  # in a thread nobody can
        # Else a cancelled job leaves environments, and imports that never end, behind.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    plugins = [StartsAnew()] if alone else []
    return int(pytest.main([*own, *place, *arguments], plugins=plugins))


def inspect(arguments: Sequence[str]) -> int:
    """Print the facts of one package without a verdict: a summary, or all as JSON."""
    code = pytest.ExitCode.OK
    try:
        _inspect(_inspect_options().parse_args(arguments))
    except ProfileError as error:
        _complain(str(error))
        code = pytest.ExitCode.USAGE_ERROR
    except BinaryChecksError as error:
        _complain(str(error))
        code = pytest.ExitCode.TESTS_FAILED
    return int(code)


def _inspect(options: argparse.Namespace) -> None:
    for name in (options.package, *options.beside):
        path = Path(name)
        try:
            folder = name is not options.package and path.is_dir()
            found = folder or (recognises(path) and path.is_file())
        except OSError as error:  # too long a name
            raise ProfileError(f"{name}: {error.strerror}") from None
        if not found:
            raise ProfileError(f"{name}: not a package file")
    profile = find_profile(Path.cwd()) if options.profile is None else load_profile(options.profile)
    settings = Settings(profile=profile, python=Path(sys.executable))
    kept = None if options.kept is None else Path(options.kept)
    shelf = Shelf(
        map(Path, options.beside),
        fetches=options.fetches or kept is not None,
        folder=kept,
        limit_factor=profile.limit_factor,
    )
    facts = Facts(Subject(path=Path(options.package)), settings, shelf)
    try:
        if options.json:
            _print_facts(facts, symbols=options.symbols)
        else:
            from binary_checks.reports.summary import write_summary

            _print_summary(write_summary(facts.get(Package)))
    finally:
        shelf.close()


def _complain(text: str) -> None:
    print(cut(one_line(f"binary-checks: {text}")), file=sys.stderr)


def _print_summary(lines: Iterator[str]) -> None:
    for line in islice(lines, MOST_OF_A_RUN):
        print(cut(one_line(line)))
    if hidden := sum(1 for _ in lines):
        print(f"and {hidden:,} more lines; --json has all facts")


class _Parser(argparse.ArgumentParser):
    """Leaves it to the caller how a wrong option ends."""

    def error(self, message: str) -> NoReturn:
        raise ProfileError(f"inspect: {message}")


def _inspect_options() -> argparse.ArgumentParser:
    parser = _Parser(prog="binary-checks inspect", description=inspect.__doc__)
    parser.add_argument("package", metavar="PACKAGE")
    parser.add_argument("--json", action="store_true", help="all facts, not a summary")
    parser.add_argument("--no-symbols", dest="symbols", action="store_false")
    parser.add_argument("--binary-with", dest="beside", metavar="PATH", action="append", default=[])
    parser.add_argument("--binary-with-requirements", dest="fetches", action="store_true")
    parser.add_argument("--binary-requirements-folder", dest="kept", metavar="PATH")
    parser.add_argument("--binary-profile", dest="profile", metavar="NAME_OR_TOML")
    return parser


def _print_facts(facts: Facts, *, symbols: bool) -> None:
    from binary_checks.documents.facts_writer import write_facts

    package = facts.get(Package)
    linkage = None
    try:
        linkage = facts.get(Linkage)
    except NotApplicable:
        pass
    except Unavailable as error:
        _complain(f"without linkage: {error}")
    for piece in write_facts(package, _sha256(facts.path), linkage, symbols=symbols):
        sys.stdout.write(piece)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
