"""In static mode nothing runs but our own workers, and nothing leaves one private folder."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import binary_checks
from binary_checks.processes import SAFE_PATH
from fixtures import audited
from fixtures.build_wheel import build_wheel
from fixtures.package_index import serve_index
from fixtures.slow import slow
from tests.plugin.conftest import EXTENSION, healthy

HOSTILE = "import os\nos.system('true')\nraise SystemExit('it ran')\n"


class Place(NamedTuple):
    """A folder to run in, one that is private, and what everything that runs is told."""

    here: Path
    private: Path
    environment: dict[str, str]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    here, private = tmp_path / "here", tmp_path / "private"
    here.mkdir()
    private.mkdir()
    own = {name: str(private) for name in ("TMPDIR", "TEMP", "TMP")}
    own["LOGNAME"] = "tester"  # else pytest looks for it where users are listed
    return Place(here, private, {**os.environ, **own})


def hostile(folder: Path, **changes: object) -> Path:
    """A wheel with code for every occasion."""
    members = {
        **dict.fromkeys(("demo/__init__.py", "conftest.py", "sitecustomize.py"), HOSTILE),
        **dict.fromkeys(("demo.pth", "setup.py", "demo/conftest.py"), HOSTILE),
        EXTENSION: b"\x7fELF not really",
    }
    return build_wheel(folder, members=members, **changes)  # type: ignore[arg-type]


def is_below(path: str, *folders: Path | str) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in map(str, folders) if folder)


def list_outside(paths: Iterable[str], *folders: Path) -> list[str]:
    """What is written elsewhere, but for the bytecode of modules, which is Python's to keep.

    Below /proc/self there is no file: a probe says there that it is the first to go without memory.
    """
    allowed = (Path(os.devnull), Path("/proc/self"), *folders)
    elsewhere = (Path(path) for path in paths if not is_below(path, *allowed))
    # Coverage, where it follows these tests into processes, keeps its own files.
    ours = (path for path in elsewhere if not path.name.startswith(".coverage."))
    return sorted(str(path) for path in ours if "__pycache__" not in (path.name, path.parent.name))


class Seen(NamedTuple):
    """What the process under the hook did."""

    status: int
    output: str
    events: dict[str, list[str]]


def watch(place: Place, *arguments: str | Path) -> Seen:
    log = place.here.parent / "seen"
    done = subprocess.run(
        [sys.executable, SAFE_PATH, audited.__file__, str(log), *map(str, arguments)],
        cwd=place.here,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert log.exists(), done.stderr
    events: dict[str, list[str]] = {"process": [], "socket": [], "write": [], "import": []}
    for line in log.read_text().splitlines():
        kind, value = json.loads(line)
        events.setdefault(kind, []).append(value)
    return Seen(done.returncode, done.stdout + done.stderr, events)


def find_strange_code(events: dict[str, list[str]]) -> list[str]:
    """Code that is neither Python's nor ours nor that of what we depend on."""
    known = (*sysconfig.get_paths().values(), Path(binary_checks.__file__).parents[1])
    base = (sys.base_prefix, sys.prefix, *filter(None, sys.path))
    names = (name for name in events["code"] if Path(name).is_absolute())
    return [name for name in names if not is_below(name, *known, *base)]


@pytest.mark.parametrize(
    "call",
    [
        ["--binary-static", "PACKAGE", "--binary-report", "sarif:PRIVATE/problems.sarif"],
        ["inspect", "PACKAGE", "--json"],
        *slow(["inspect", "PACKAGE"], ["--explain", "absolute-search-path"]),
    ],
)
def test_a_process_starts_nothing_and_writes_nothing(place: Place, call: list[str]) -> None:
    wheel = hostile(place.here)
    words = [word.replace("PRIVATE", str(place.private)) for word in call]
    seen = watch(place, *(wheel if word == "PACKAGE" else word for word in words))
    assert seen.status in {0, 1}, seen.output
    assert (seen.events["process"], seen.events["socket"]) == ([], [])
    assert list_outside(seen.events["write"], place.private) == []
    assert [name for name in seen.events["import"] if name.partition(".")[0] == "demo"] == []
    assert find_strange_code(seen.events) == []


@pytest.mark.slow
def test_with_xdist_it_starts_workers_alone(place: Place) -> None:
    wheels = [hostile(place.here), healthy(place.here / "more")]
    seen = watch(place, "--binary-static", "-n", "2", "--dist", "load", *wheels)
    assert seen.status == 1, seen.output
    # Python 3.13 tells of each start twice, as a Popen and as a posix_spawn.
    assert {tuple(words[:2]) for words in seen.events["process"]} == {(sys.executable, SAFE_PATH)}
    assert seen.events["socket"] == []
    assert list_outside(seen.events["write"], place.private) == []


def test_the_hook_sees_what_it_is_to_see(place: Place) -> None:
    """The same command at run time starts processes, and writes."""
    members = {"demo/__init__.py": "value = 1\n"}
    wheel = healthy(place.here, tags=("py3-none-any",), members=members)
    seen = watch(place, f"{wheel}::import-fails")
    assert seen.status == 0, seen.output
    assert len(seen.events["process"]) > 2
    assert len(seen.events["write"]) > 2


@functools.cache
def find_strace() -> str:
    """Why strace cannot be used, "" where it can."""
    if shutil.which("strace") is None:
        return "no strace here"
    done = subprocess.run(["strace", "-f", "true"], capture_output=True, check=False)
    return "strace may not trace here" if done.returncode else ""


_CALL = re.compile(r"(?P<pid>\d+) +(?P<name>\w+)\((?P<rest>.*)\) += (?P<result>-?\d+)")
_TEXT = re.compile(r'(?:<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')  # below a folder that is open, or not
_CHANGING = ("creat", "mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat")
_STARTING = ("clone", "clone3", "fork", "vfork")
_TRACED = ",".join(("execve", "execveat", "socket", "open", "openat", *_CHANGING, *_STARTING))


class Call(NamedTuple):
    """A system call that succeeded."""

    pid: int
    name: str
    rest: str
    result: int

    @property
    def texts(self) -> list[str]:
        return [str(Path(folder, text)) for folder, text in _TEXT.findall(self.rest)]


def trace(place: Place, *arguments: str | Path) -> list[Call]:
    """All that the command and its children had the kernel do."""
    log = place.here.parent / "trace"
    strace = ["strace", "-f", "-y", "-qq", "-s", "4096", "-e", f"trace={_TRACED}", "-o", str(log)]
    done = subprocess.run(
        [*strace, sys.executable, SAFE_PATH, "-m", "binary_checks", *map(str, arguments)],
        cwd=place.here,
        env=place.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return list(_read_calls(log.read_text(errors="replace")))


def _read_calls(text: str) -> Iterator[Call]:
    begun: dict[str, str] = {}
    for line in text.splitlines():
        pid, _, rest = line.partition(" ")
        if rest.endswith("<unfinished ...>"):
            begun[pid] = line.removesuffix("<unfinished ...>").rstrip()
            continue
        if resumed := re.match(r" *<\.\.\. \w+ resumed>", rest):
            line = begun.pop(pid, "") + rest[resumed.end() :]  # noqa: PLW2901
        found = _CALL.match(line)
        if found and int(found["result"]) >= 0:
            result = int(found["result"])
            yield Call(int(found["pid"]), found["name"], found["rest"], result)


def list_writes(calls: list[Call]) -> set[str]:
    opening = re.compile(r"O_WRONLY|O_RDWR|O_CREAT")
    written = [call for call in calls if call.name in _CHANGING]
    written += [
        call for call in calls if call.name.startswith("open") and opening.search(call.rest)
    ]
    return {text for call in written for text in call.texts}


def list_descendants(calls: list[Call], pid: int) -> set[int]:
    """The process, and all that it and its children started."""
    parents = {call.result: call.pid for call in calls if call.name in _STARTING}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more  # a child may act before its parent is told of it
    return found


needs_strace = pytest.mark.skipif(bool(find_strace()), reason=find_strace())
PROGRAM = str(Path(sys.executable))


@needs_strace
@pytest.mark.parametrize(
    "workers", [[], *slow(["-n", "2", "--dist", "load"])], ids=["alone", "xdist"]
)
def test_nor_does_any_child_of_it(place: Place, workers: list[str]) -> None:
    wheels = [hostile(place.here), healthy(place.here / "more")]
    calls = trace(place, "--binary-static", *workers, *wheels)
    programs = [call.texts[:3] for call in calls if call.name.startswith("exec")]
    assert {tuple(words[:2]) for words in programs} == {(PROGRAM, PROGRAM)}
    assert [words[2] for words in programs] == [SAFE_PATH] * (3 if workers else 1)
    assert [call for call in calls if call.name == "socket"] == []
    assert list_outside(list_writes(calls), place.private) == []


@needs_strace
def test_an_installed_package_is_looked_for_by_the_interpreter_alone(place: Place) -> None:
    named = ("--binary-installed", "pytest", "--binary-python", sys.executable)
    calls = trace(place, "--binary-static", *named, "-m", "archive", "-q")
    programs = [call.texts for call in calls if call.name.startswith("exec")]
    assert {words[0] for words in programs} == {PROGRAM}
    assert [set(words[2:4]) for words in programs[1:]] == [{"-I", "-S"}]
    assert [call for call in calls if call.name == "socket"] == []
    assert list_outside(list_writes(calls), place.private) == []


@needs_strace
def test_with_downloads_only_the_installer_reaches_out(place: Place) -> None:
    pytest.importorskip("pip", reason="no pip here")
    with serve_index() as index:
        tag = ("py3-none-manylinux_2_17_x86_64",)
        index.offer(hostile(place.here.parent / "files", name="other", tags=tag), "other")
        wheel = hostile(place.here, requires=("other",))
        cache = place.here.parent / "cache"
        for name in [name for name in place.environment if name.startswith("PIP_")]:
            del place.environment[name]
        settings = {
            "INDEX_URL": f"{index.url}/simple",
            "CONFIG_FILE": os.devnull,
            "CACHE_DIR": cache,
        }
        place.environment.update((f"PIP_{name}", str(value)) for name, value in settings.items())
        calls = trace(place, "--binary-static", "--binary-with-requirements", wheel)
    started = (call for call in calls if call.name == "execve")
    (first,) = (
        call.pid for call in started if any("pip_without_urls" in word for word in call.texts[:6])
    )
    installer = list_descendants(calls, first)  # which asks lsb_release and uname who they are
    reaching = {call.pid for call in calls if call.name == "socket"}
    assert reaching
    assert reaching <= installer
    assert list_outside(list_writes(calls), place.private, cache) == []
    ours = [call for call in calls if call.pid not in installer and call.name == "execve"]
    assert {call.texts[0] for call in ours} == {PROGRAM}
    assert "/files/other-1.0-py3-none-manylinux_2_17_x86_64.whl" in index.asked
    assert list(place.private.iterdir()) == []
