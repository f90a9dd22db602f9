from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.fuzz import installers
from fixtures.fuzz.installers import find_uv, install_with_uv, list_tree, list_with_zipfile
from fixtures.fuzz.target_zip import Target
from fixtures.fuzz.zip_seeds import find_structures

SEEDS = {seed.name.partition(" ")[0]: seed for seed in find_structures(None)}


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Iterator[Target]:
    monkeypatch.setattr(installers, "find_uv", lambda: None)  # a process, for the slow tests
    target = Target()
    yield target
    target.close()


def test_a_cut_archive_is_red_here_and_refused_there(target: Target, tmp_path: Path) -> None:
    seed = SEEDS["stored"]
    assert target.problems(seed, seed.content[:-30])
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(seed.content[:-30])
    assert list_with_zipfile(path) == ("BadZipFile: File is not a zip file", {})


def test_pip_refuses_what_zipfile_cannot_read(target: Target) -> None:
    seed = SEEDS["stored"]
    damaged = seed.content.replace(b"x = 1", b"x = 2", 1)
    (opinion,) = target.ask(seed, [damaged], [False])
    assert opinion is not None
    assert "zipfile demo/__init__.py: wrong CRC" in opinion.said
    assert "pip BadZipFile: Bad CRC-32" in opinion.said


@pytest.mark.slow
def test_uv_installs_what_pip_installs(tmp_path: Path) -> None:
    uv = find_uv()
    if uv is None:
        pytest.skip("there is no uv")
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(SEEDS["stored"].content)
    assert install_with_uv(uv, [path], tmp_path / "uv", sys.executable) == ""
    assert {"lib/demo/__init__.py", "lib/demo/empty.txt"} <= set(list_tree(tmp_path / "uv"))
