"""The command prints verdicts, problems with what to do, and a count; pytest's own report at -v."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.slow import slow
from tests.plugin.conftest import (
    EXTENSION,
    NAME,
    TRY_AGAIN,
    command,
    faulty,
    healthy,
    start_command,
)

pty = pytest.importorskip("pty", reason="no pseudo-terminals here")

INIT = ElfSymbol("PyInit__native")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
OWN = """
from binary_checks import check
from binary_checks.errors import GatherError
from binary_checks.model import Note, NotInspected, Wheel

@check
def lacks_network(wheel: Wheel):
    "A check needs what is not there."
    raise GatherError("the index cannot be reached")
    yield

@check
def breaks(wheel: Wheel):
    "A check breaks."
    raise KeyError("gone")
    yield

@check
def ends_its_process(wheel: Wheel):
    "A check takes its process along."
    __import__("os")._exit(9)
    yield

@check
def blind(wheel: Wheel):
    "A check cannot see."
    yield NotInspected(sentence="no light")

@check
def unsighted(wheel: Wheel):
    "Another cannot see, for the same reason."
    yield NotInspected(sentence="no light")

@check
def is_interrupted(wheel: Wheel):
    "The user has enough."
    raise KeyboardInterrupt
    yield
"""


def on_terminal(
    folder: Path, columns: int, *arguments: str | Path, **environment: str
) -> tuple[int, str]:
    """Run the command on a terminal that wide; the exit status and what it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        known = {name: value for name, value in os.environ.items() if name not in _DISTINCTIVE}
        words = [sys.executable, "-m", "binary_checks", "--static", *map(str, arguments)]
        chosen = {"COLUMNS": str(columns), "TERM": "xterm", **environment}
        os.execve(sys.executable, words, {**known, **chosen})
    shown = b"".join(iter(lambda: _read(terminal), b""))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode().replace("\r\n", "\n")


_DISTINCTIVE = ("NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING", "LC_ALL", "PY_COLORS")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux says that nobody writes there any more
        return b""


def own_checks(folder: Path, *names: str) -> tuple[str, ...]:
    (folder / "own_checks.py").write_text(OWN)
    (folder / "own.toml").write_text("checks = ['own_checks.py']\n")
    return "--profile", "own.toml", "-k", " or ".join(names)


def test_a_healthy_package_is_two_lines(tmp_path: Path) -> None:
    ended = command(tmp_path, "--static", healthy(tmp_path))
    verdict, closing, static = ended.stdout.splitlines()
    assert re.fullmatch(rf"{NAME}: fit · \d+ checks, 1 object, not run", verdict)
    assert re.fullmatch(r"1 package: 1 fit · [\d.]+ s", closing)
    assert static == "runtime checks were left out (--static)"
    assert ended.stderr == ""


def test_a_problem_is_one_line_where_output_is_piped(tmp_path: Path) -> None:
    lines = command(tmp_path, "--static", faulty(tmp_path)).stdout.splitlines()
    assert lines[0].startswith(f"{NAME}: unfit · 1 problem · ")
    assert lines[1].startswith(f"absolute-search-path: {NAME}: demo/_native.cpython-311-")
    assert lines[2] == f"  run: patchelf --remove-rpath {EXTENSION}"
    assert lines[5].endswith("    why: binary-checks --explain absolute-search-path")


def test_pytests_own_report_is_there_for_whoever_asks(tmp_path: Path) -> None:
    path, one = faulty(tmp_path), ("--static", "-k", "absolute-search-path")
    for asked in ("-v", "-rA", "--tb=line", "--collect-only"):
        assert " test session starts " in command(tmp_path, *one, asked, path).stdout
    assert "family " in command(tmp_path, *one, "-v", path).stdout
    quiet = command(tmp_path, *one, path, "-q", "--maxfail=3").stdout
    assert "family " not in quiet
    assert "test session" not in quiet


@pytest.mark.parametrize("workers", [(), *slow((("-n", "2", "--dist", "load"),))])
def test_each_package_has_a_verdict_as_soon_as_it_is_judged(
    tmp_path: Path, workers: tuple[str, ...]
) -> None:
    paths = [healthy(tmp_path / "a", name="one"), faulty(tmp_path / "b", name="two")]
    ended = command(tmp_path, "--static", *workers, *paths)
    assert ended.returncode == 1
    verdicts = dict(re.findall(r"^(one|two)-1\.0-\S+: (\w+) ", ended.stdout, re.MULTILINE))
    assert verdicts == {"one": "fit", "two": "unfit"}
    assert "2 packages: 1 fit, 1 unfit · " in ended.stdout
    assert "test session" not in ended.stdout


def test_what_could_not_be_judged_is_said_last(tmp_path: Path) -> None:
    chosen = own_checks(tmp_path, "blind", "absolute")
    ended = command(tmp_path, "--static", healthy(tmp_path), *chosen)
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1] == "not inspected, 1 check: no light; -v says all"


def test_a_required_family_that_could_not_look_is_one_problem_without_advice(
    tmp_path: Path,
) -> None:
    chosen = own_checks(tmp_path, "blind", "unsighted")
    required = ("--static", "--require", "own_checks")
    ended = command(tmp_path, healthy(tmp_path), *required, *chosen)
    assert ended.returncode == 1
    _, verdict, problem, closing, *_ = ended.stdout.splitlines()
    assert ": unfit · 1 problem · 2 checks" in verdict
    required_but = "not inspected, but own_checks is required: no light"
    assert problem == f"blind: {NAME}: {required_but} [also: unsighted]"
    assert closing.startswith("1 package: 1 unfit · ")


def test_an_unreadable_package_is_said_under_that_name_and_once(tmp_path: Path) -> None:
    (tmp_path / "demo.tar.bz2").write_bytes(b"BZh9 and no more")
    ended = command(tmp_path, "--static", "demo.tar.bz2")
    assert ended.returncode == 1
    verdict, problem, closing, _, lacking = ended.stdout.splitlines()
    assert verdict.startswith("demo.tar.bz2: unfit · 1 problem · ")
    assert problem == "unreadable-package: demo.tar.bz2: its compressed data are broken"
    assert "--explain" not in closing  # it is no check
    assert re.fullmatch(r"not inspected, \d+ checks: unreadable package; -v says all", lacking)


def test_a_wheel_for_another_python_is_fit_but_not_run(tmp_path: Path) -> None:
    tags, members = ("cp35-cp35m-manylinux_2_17_x86_64",), {"demo/native.so": build_elf()}
    ended = command(tmp_path, healthy(tmp_path, tags=tags, members=members))
    *_, last = ended.stdout.splitlines()  # first comes, without bubblewrap, "not sandboxed"
    assert ": fit, but not run · " in ended.stdout
    assert last.startswith("not run: the wheel is for cp35-cp35m-manylinux_2_17_x86_64, ")


def test_something_that_broke_is_no_verdict(tmp_path: Path) -> None:
    paths = healthy(tmp_path / "a", name="one"), healthy(tmp_path / "b", name="two")
    ended = command(tmp_path, "--static", *paths, *own_checks(tmp_path, "lacks", "absolute"))
    assert ended.returncode == TRY_AGAIN
    _, first, second, closing, _, chosen = ended.stdout.splitlines()
    assert chosen == "only -k lacks or absolute was judged"
    assert first.startswith("one-1.0-cp311-cp311-manylinux_2_17_x86_64.whl: not judged: the index ")
    assert ": not judged, as above · 1 check" in second
    assert closing.startswith("2 packages: 2 not judged")


def test_a_run_of_some_checks_says_which(tmp_path: Path) -> None:
    path = healthy(tmp_path)
    last = command(tmp_path, "--static", path, "-m", "hardening").stdout.splitlines()[-1]
    assert last == "only -m hardening was judged"
    last = command(tmp_path, "--static", f"{path}::bytecode-in-wheel").stdout.splitlines()[-1]
    assert last == "only PACKAGE::bytecode-in-wheel was judged"


def test_a_check_that_breaks_is_named(tmp_path: Path) -> None:
    ended = command(tmp_path, "--static", healthy(tmp_path), *own_checks(tmp_path, "breaks"))
    assert ended.returncode == pytest.ExitCode.INTERNAL_ERROR
    assert ": not judged: breaks broke: KeyError: 'gone' (own_checks.py:" in ended.stdout


@pytest.mark.parametrize(
    ("check", "status", "reason"),
    [
        ("is_interrupted", 2, "the run was interrupted"),
        ("ends_its_process", 1, r"worker 'gw\d' crashed while running"),
    ],
)
def test_a_package_whose_checks_did_not_all_end_is_not_fit(
    tmp_path: Path, check: str, status: int, reason: str
) -> None:
    chosen = own_checks(tmp_path, check.replace("_", "-"), "absolute")
    workers = ("-n", "1", "--dist", "load") if status == 1 else ()
    ended = command(tmp_path, "--static", healthy(tmp_path), *chosen, *workers)
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert re.search(rf"^{NAME}: not judged: {reason}", ended.stdout, re.MULTILINE)
    assert "1 package: 1 not judged" in ended.stdout


def test_a_run_that_stops_early_says_which_packages_it_did_not_judge(tmp_path: Path) -> None:
    paths = faulty(tmp_path / "a", name="one"), healthy(tmp_path / "b", name="two")
    ended = command(tmp_path, "--static", "-x", *paths)
    assert ended.returncode == 1
    assert "two-1.0-cp311-cp311-manylinux_2_17_x86_64.whl: not judged: stopping after 1" in (
        ended.stdout
    )


def test_what_pytest_says_of_its_own_usage_is_not_lost(tmp_path: Path) -> None:
    ended = command(tmp_path, "--static", healthy(tmp_path), "-m", "not (")
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "Wrong expression passed to '-m'" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("columns", [20, *slow(40, 80, 120)])
def test_a_terminal_has_lines_that_fit(tmp_path: Path, columns: int) -> None:
    status, shown = on_terminal(tmp_path, columns, faulty(tmp_path), NO_COLOR="1")
    assert status == 1
    assert "\x1b" not in shown
    for line in shown.split("\n"):
        seen = line.rpartition("\r")[2]
        command = re.match(r" *(run|unpack|repack|why): ", seen) or "binary-checks" in seen
        assert len(seen) <= columns or len(seen.split()) == 1 or command
    assert "looks for" in shown
    assert "/tmp/build/lib" in shown
    assert "absolute-search-path" in shown


def test_a_terminal_has_colours(tmp_path: Path) -> None:
    assert "\x1b[31;1munfit\x1b[0m" in on_terminal(tmp_path, 80, faulty(tmp_path))[1]


@pytest.mark.slow
def test_a_terminal_has_no_colours_where_it_wants_none(tmp_path: Path) -> None:
    path = faulty(tmp_path)
    assert "\x1b" not in on_terminal(tmp_path, 80, path, TERM="dumb")[1]
    assert "\x1b" not in on_terminal(tmp_path, 80, path, "--color=no")[1]


def test_a_pipe_has_colours_where_it_wants_them(tmp_path: Path) -> None:
    piped = command(tmp_path, "--static", faulty(tmp_path), FORCE_COLOR="1").stdout
    assert "\x1b[31;1munfit\x1b[0m" in piped
    line = next(line for line in _COLOUR.sub("", piped).splitlines() if "/tmp/build" in line)
    assert line.startswith(f"absolute-search-path: {NAME}: demo/")


@pytest.mark.parametrize("variables", [{"PYTHONIOENCODING": "ascii"}, *slow({"LC_ALL": "C"})])
def test_a_terminal_of_few_characters_loses_nothing(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    path = faulty(tmp_path, name="d\xe9mo")
    status, shown = on_terminal(tmp_path, 80, path, NO_COLOR="1", **variables)
    assert status == 1, shown
    assert "unfit" in shown
    assert "/tmp/build/lib" in shown
    piped = start_command(tmp_path, "--static", path, **variables)
    assert piped.returncode == 1
    assert "Traceback" not in piped.stdout + piped.stderr
    assert ": unfit" in piped.stdout


def test_nothing_is_left_of_the_line_that_says_what_is_under_way(tmp_path: Path) -> None:
    paths = [healthy(tmp_path / str(each), name=f"p{each}") for each in range(4)]
    shown = on_terminal(tmp_path, 80, *paths, NO_COLOR="1")[1]
    for line in shown.removesuffix("\n").split("\n"):
        assert re.match(r"p\d+-|4 packages|runtime checks|not inspected", line.rpartition("\r")[2])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(("make", "status"), [*slow((healthy, 6)), (faulty, 1)])
def test_reports_are_written_where_nothing_can_be_printed(
    tmp_path: Path, make: Callable[[Path], Path], status: int
) -> None:
    words = ["--static", "--report", "json:out.json", str(make(tmp_path))]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "binary_checks", *words],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert ended.returncode == status
    assert (tmp_path / "out.json").stat().st_size > 0


@pytest.mark.skipif(not shutil.which("patchelf"), reason="no patchelf here")
def test_the_command_that_is_given_mends_the_file(tmp_path: Path) -> None:
    pytest.importorskip("wheel", reason="no wheel here: it unpacks and packs")
    path = faulty(tmp_path)
    lines = command(tmp_path, "--static", path.name).stdout.splitlines()
    told = dict(line.strip().split(": ", 1) for line in lines if line.startswith("  "))
    assert told["run"] == f"patchelf --remove-rpath {EXTENSION}"
    script = " && ".join((told["unpack"], told["run"], told["repack"]))
    here = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(script, shell=True, cwd=tmp_path, env={**os.environ, "PATH": here}, check=True)
    assert command(tmp_path, "--static", path.name).returncode == 0


def test_a_command_is_given_once_and_names_the_package_as_it_lies(tmp_path: Path) -> None:
    native = build_elf(exports=(INIT,), needed=("libone.so.1", "libtwo.so.1"))
    path = healthy(tmp_path / "a b", members={"demo/__init__.py": "", EXTENSION: native})
    shown = command(tmp_path, "--static", path, "-k", "missing-library").stdout
    assert shown.count("  run: auditwheel repair ") == 1
    assert f"  run: auditwheel repair 'a b/{NAME}'  # where the library is installed\n" in shown
    shown = command(tmp_path, "--static", path.as_uri(), "-k", "missing-library").stdout
    assert f"  run: auditwheel repair '{path}'  # where" in shown


def test_wheels_of_one_name_in_two_folders_are_told_apart(pytester: pytest.Pytester) -> None:
    for build in (faulty, healthy):
        folder = pytester.path / "dist" / build.__name__
        folder.mkdir(parents=True)
        build(folder)
    ended = command(pytester.path, "--static", f"dist/faulty/{NAME}", f"dist/healthy/{NAME}")
    verdicts = [line for line in ended.stdout.splitlines() if " checks, " in line]
    assert [line.partition(":")[0] for line in verdicts] == [f"faulty/{NAME}", f"healthy/{NAME}"]
    assert f"absolute-search-path: faulty/{NAME}: " in ended.stdout


def test_the_time_in_the_count_includes_what_came_before_a_restart(
    pytester: pytest.Pytester,
) -> None:
    path, began = healthy(pytester.path), str(time.monotonic() - 7200)
    shown = command(pytester.path, "--static", path, BINARY_CHECKS_STARTED=began).stdout
    found = re.search(r"^1 package: 1 fit · ([\d,]+) s", shown, re.MULTILINE)
    assert found is not None
    assert int(found[1].replace(",", "")) >= 7200
