"""A container of podman or docker: which engine is asked, for what, and how it ends."""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path

import pytest

from binary_checks.errors import GatherError
from binary_checks.places import Limits
from binary_checks.places.containers import (
    Container,
    ContainerEngine,
    PulledImage,
    find_engine,
    find_image,
    read_image,
)
from fixtures import fake_engine
from fixtures.environments import demand_sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containers are Linux's")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with what stands in for podman, the first on PATH."""
    demand_sandbox("auto")
    folder = fake_engine.install(tmp_path, images=("localhost/image",))
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def write_program(path: Path, code: str) -> None:
    path.write_text(f"#!/bin/sh\n{code}\n", encoding="utf-8")
    path.chmod(0o755)


def test_where_no_engine_is_or_answers_it_is_said_what_to_install_or_the_words_of_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GatherError, match="there is no podman and no docker here; install one"):
        find_engine()
    write_program(tmp_path / "podman", "printf 'WARN 1\\nError: no cgroups\\n' >&2; exit 125")
    write_program(tmp_path / "docker", "exit 1")
    said = "podman: Error: no cgroups; docker: it ends with exit status 1 and says nothing"
    with pytest.raises(GatherError, match=f"no container can be started here: {said}"):
        find_engine()


def test_docker_serves_where_podman_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    write_program(tmp_path / "podman", "echo Error: no cgroups >&2; exit 125")
    write_program(tmp_path / "docker", "exit 0")
    assert find_engine() == ContainerEngine(name="docker", program=str(tmp_path / "docker"))


def test_an_image_that_is_not_here_is_pulled(programs: Path) -> None:
    found = find_image(find_engine(), "localhost/other")
    assert found == PulledImage(id="1a" * 32, pinned=fake_engine.PINNED)


@pytest.mark.parametrize(
    ("text", "reference", "pinned"),
    [
        ('[{"Id": "ab", "RepoDigests": ["a@sha256:1", "b@sha256:2"]}]', "a", "a@sha256:1"),
        ('[{"Id": "sha256:ab", "RepoDigests": []}]', "a", "sha256:ab"),  # docker's spelling
        ('[{"Id": "ab"}]', "a", "sha256:ab"),
        ('[{"Id": "ab", "RepoDigests": ["a@sha256:1"]}]', "a@sha256:9", "a@sha256:9"),
    ],
)
def test_an_image_is_pinned_by_its_digest(text: str, reference: str, pinned: str) -> None:
    assert read_image(text, reference, "podman").pinned == pinned


@pytest.mark.parametrize("text", ["", "[]", "[{}]", "[1]", "{}", '[{"Id": 1}, {"Id": 2}]'])
def test_what_is_no_answer_about_an_image_is_the_engine_s_fault(text: str) -> None:
    with pytest.raises(GatherError, match="podman: its description of a cannot be read"):
        read_image(text, "a", "podman")


def test_a_container_reads_what_it_is_given_and_reaches_nothing_else(
    programs: Path, tmp_path: Path
) -> None:
    limits = Limits(processes=10, memory=1 << 30, disk=1 << 20)
    mounts = ((tmp_path, "/mnt/package"),)
    Container(find_engine(), PulledImage(id="image"), limits, mounts).close()
    (words,) = fake_engine.list_runs(programs)
    pairs = set(itertools.pairwise(words))
    assert {"--rm", "--read-only", "--interactive"} <= {*words}
    assert pairs >= {
        ("--network", "none"),
        ("--user", "65534:65534"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--memory", str(1 << 30)),
        ("--pids-limit", "40"),
        ("--pull", "never"),
        ("--mount", f"type=bind,source={tmp_path},target=/mnt/package,readonly"),
    }
    assert "--device" not in words
    assert "--volume" not in words


@pytest.mark.parametrize(
    ("name", "words"),
    [("podman", ("--device", "nvidia.com/gpu=all")), ("docker", ("--gpus", "all"))],
)
def test_gpus_are_given_in_the_words_of_each_engine(
    programs: Path, name: str, words: tuple[str, str]
) -> None:
    """podman takes docker's words, too, and gives none for them."""
    engine = ContainerEngine(name=name, program=str(programs / "podman"))
    Container(engine, PulledImage(id="image"), Limits(gpu=True, network=True)).close()
    (said,) = fake_engine.list_runs(programs)
    assert words in set(itertools.pairwise(said))
    assert "--network" not in said


@pytest.mark.parametrize(
    ("name", "recipe"),
    [("podman", "nvidia-ctk cdi generate"), ("docker", "nvidia-ctk runtime configure")],
)
def test_a_container_that_should_have_a_gpu_and_has_none_is_the_host_s_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, recipe: str
) -> None:
    demand_sandbox("auto")
    folder = fake_engine.install(tmp_path, gpus=0)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    engine = ContainerEngine(name=name, program=str(folder / "podman"))
    with pytest.raises(GatherError, match=f"{name} shows no GPU in the container; .*{recipe}"):
        Container(engine, PulledImage(id="image"), Limits(gpu=True))


@pytest.mark.parametrize(
    ("code", "status"), [("exit 7", 7), ("exit 125", 125), ("kill -9 $$", -9), ("kill -6 $$", -6)]
)
def test_a_command_ends_as_it_does(programs: Path, code: str, status: int) -> None:
    container = Container(find_engine(), PulledImage(id="image"), Limits())
    assert container.run(("sh", "-c", code), timeout=60).status == status
    assert container.runs
    container.close()
    assert not container.runs


def test_a_command_has_a_clean_environment(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOP_SECRET", "token")
    container = Container(find_engine(), PulledImage(id="image"), Limits())
    ended = container.run(("sh", "-c", "pwd; ls; env"), timeout=60, variables={"LANG": "x"})
    container.close()
    lines = set(ended.stdout.splitlines())
    assert {"/tmp/empty", "HOME=/tmp/home", "LANG=x", "LC_ALL=C.UTF-8"} <= lines
    assert "token" not in ended.stdout


def test_what_the_engine_did_not_run_is_its_fault(programs: Path) -> None:
    container = Container(find_engine(), PulledImage(id="image"), Limits())
    about = programs.parent / "state" / "about.json"
    about.write_text('{"images": [], "refuses": "exec"}', encoding="utf-8")
    with pytest.raises(GatherError, match="podman runs no command in the container: Error: it was"):
        container.run(("true",), timeout=60)
    container.close()


@pytest.mark.slow
def test_a_command_that_hangs_ends_with_its_container(programs: Path) -> None:
    container = Container(find_engine(), PulledImage(id="image"), Limits())
    begun = time.monotonic()
    assert container.run(("sleep", "600"), timeout=0.5).status is None
    assert not container.runs
    assert time.monotonic() - begun < 60


def test_what_one_command_has_written_the_next_one_does_not_find(programs: Path) -> None:
    container = Container(find_engine(), PulledImage(id="image"), Limits())
    write = "touch ../x ../.hidden ../home/y ../bytecode/kept z"
    assert container.run(("sh", "-c", write), timeout=60).status == 0
    beside = container.run(("sh", "-c", "ls -A .. ../home ."), timeout=60, alone=False)
    after = container.run(("sh", "-c", "ls -A .. ../home . ../bytecode"), timeout=60)
    container.close()
    assert {"x", ".hidden", "y", "z"} <= set(beside.stdout.split())
    assert set(after.stdout.split()) == {
        *("..:", "../home:", ".:", "../bytecode:"),
        *("bytecode", "empty", "home", "kept"),
    }
