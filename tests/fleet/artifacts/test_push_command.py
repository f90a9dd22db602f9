"""`binary-checks artifact push | find | pull` as programs: races, kills, stores that refuse."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from binary_checks.command.actions import ARTIFACT
from binary_checks.fleet.artifacts import find_artifact, keep_artifact, list_artifacts, list_members
from binary_checks.fleet.store import Store, artifact_name, open_store
from fixtures.build_wheel import build_wheel
from fixtures.fleet.object_store import ObjectStore
from tests.fleet.artifacts.made_artifacts import make_artifact

COMMIT = "c" * 40
PROGRAM = (sys.executable, "-m", "binary_checks", "artifact")


def make_wheel(folder: Path, text: str = "", **said: str) -> Path:
    folder.mkdir(exist_ok=True)
    return build_wheel(folder, tags=("py3-none-any",), members={"demo/x.py": text}, **said)


def run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def push(url: str, *words: str | Path) -> Sequence[str | Path]:
    return ("push", *words, "--store", url, "--channel", "test", "--commit", COMMIT)


@pytest.mark.usefixtures("inspecting_process")
def test_it_is_pushed_found_and_pulled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "store")
    wheel = make_wheel(tmp_path)
    pushed = run(*push(url, wheel))
    assert (pushed.returncode, pushed.stderr) == (0, "")
    assert pushed.stdout == (
        f"{wheel.name}: kept, now in test (demo 1.0: wheel any any any; {COMMIT[:12]})\n"
    )
    assert ARTIFACT.run([*map(str, push(url, wheel))]) == 0
    again = capsys.readouterr().out
    assert again.startswith(f"{wheel.name}: was kept already, already in test (")
    assert ARTIFACT.run(["find", "--store", url, "--where", "python=3.12", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["artifacts"]
    assert (row["artifact"]["file_name"], row["channels"]) == (wheel.name, ["test"])
    words = ["pull", str(tmp_path / "out"), "--store", url, "--where"]
    assert ARTIFACT.run([*words, "python=3.12"]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "out" / wheel.name).read_bytes() == wheel.read_bytes()
    assert ARTIFACT.run([*words, "variant=cu130"]) == 1
    missing = capsys.readouterr()
    assert missing.out == ""
    assert missing.err == (
        f"binary-checks: {url}: no artifact matches; the nearest is {wheel.name}: variant none and "
        "not cu130\n"
    )


@pytest.mark.slow
def test_one_bad_file_keeps_none_of_the_others(tmp_path: Path) -> None:
    url = str(tmp_path / "store")
    (tmp_path / "bad-1.0-py3-none-any.whl").write_bytes(b"no zip")
    wheels = [make_wheel(tmp_path, version=f"{each}.0") for each in range(4)]
    ended = run(*push(url, tmp_path / "bad-1.0-py3-none-any.whl", *wheels, "no*.whl", "-j", "3"))
    assert ended.returncode == 4
    bad, none = ended.stderr.splitlines()
    assert bad.startswith("binary-checks: bad-1.0-py3-none-any.whl: ")
    assert none == "binary-checks: no*.whl: cannot be read: No such file or directory"
    told = [line.partition(":")[0] for line in ended.stdout.splitlines()]
    assert told == [wheel.name for wheel in wheels]
    assert len(list_members(open_store(url))) == len(wheels)


def test_of_several_that_match_the_latest_or_all_are_pulled(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "store"), make=True)
    for version in ("1.0", "2.0"):
        name = f"demo-{version}-py3-none-any.whl"
        keep_artifact(store, *make_artifact(tmp_path, version.encode(), name, version=version))
    words = ["pull", str(tmp_path / "out"), "--store", store.url]
    assert ARTIFACT.run(words) == 1
    assert not (tmp_path / "out").exists()
    assert ARTIFACT.run([*words, "--latest"]) == 0
    assert [each.name[5:8] for each in (tmp_path / "out").glob("*.whl")] == ["2.0"]
    assert ARTIFACT.run([*words, "--all"]) == 0
    assert len(list((tmp_path / "out").glob("*.whl"))) == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["push", "x.whl"], "required: --store"),
        (
            ["push", "x.whl", "--store", "s", "--set", "colour=red"],
            "--set colour=red: unknown axis 'colour'",
        ),
        (["push", "x.whl", "--store", "s", "--license", "gone"], "gone: cannot be read"),
        (["push", "x.whl", "--store", "s", "--timeout", "nan"], "--timeout: more than 0"),
        (["find", "--store", "nowhere"], "not a store"),
        (["find", "--store", "s", "--channel", "nope"], "no channel nope (known: none)"),
        (["pull", "out", "--store", "s", "--where", "x"], "not AXIS=GLOB"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    open_store(str(tmp_path / "s"), make=True)
    placed = [str(tmp_path / each) if each in ("s", "nowhere") else each for each in words]
    assert ARTIFACT.run(placed) in (4, 6)
    (line,) = capsys.readouterr().err.splitlines()
    assert reason in line


def test_a_document_that_cannot_be_read_is_no_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "store")
    store = open_store(url, make=True)
    artifact, incoming = make_artifact(tmp_path)
    keep_artifact(store, artifact, incoming)
    store.create(artifact_name("f" * 64), b"{")
    assert ARTIFACT.run(["find", "--store", url]) == 6
    shown = capsys.readouterr()
    assert artifact.file_name in shown.out
    assert len(shown.err.splitlines()) == 1
    assert ARTIFACT.run(["pull", str(tmp_path / "out"), "--store", url]) == 6
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_of_16_pushes_of_the_same_bytes_all_are_content(
    store: Store, url: str, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path)
    with ThreadPoolExecutor(16) as pool:
        ended = list(pool.map(lambda _: run(*push(url, wheel)), range(16)))
    assert {each.returncode for each in ended} == {0}
    assert sum("now in test" in each.stdout for each in ended) == 1
    (artifact,) = list_artifacts(store)
    assert [each.sha256 for each in list_members(store)] == [artifact.sha256]


@pytest.mark.slow
def test_a_push_may_be_killed_at_any_moment(store: Store, url: str, tmp_path: Path) -> None:
    """The next one of the same bytes ends it, and nothing that counts is ever half."""
    chance = random.Random(7)
    wheel = make_wheel(tmp_path, "x = 1\n" * 200_000)
    for _ in range(25):
        words = [*PROGRAM, *map(str, push(url, wheel))]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.3, 1.2))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for member in list_members(store):
            assert find_artifact(store, member.sha256) is not None
        for artifact in list_artifacts(store):
            assert store.read(artifact.object_name) == wheel.read_bytes()
    assert run(*push(url, wheel)).returncode == 0
    assert len(list_members(store)) == 1


@pytest.mark.parametrize("url", ["bucket"], indirect=True)
def test_a_key_that_may_only_read_gets_one_line(
    server: ObjectStore,
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in server.environment("reader").items():
        monkeypatch.setenv(name, value)
    assert ARTIFACT.run([*map(str, push(store.url, make_wheel(tmp_path)))]) == 6
    (line,) = capsys.readouterr().err.splitlines()
    assert "the server answers 403 AccessDenied" in line
    assert list(store.names("files/")) == []
    assert list_members(store) == []
