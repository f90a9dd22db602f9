"""The desk of a release engineer, and `inspect` in this process, for tests that ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.fleet.artifacts import deriving
from binary_checks.fleet.artifacts.limited_process import LimitedEnd
from binary_checks.fleet.store import open_store
from tests.fleet.artifacts.release_desk import Desk
from tests.plugin.conftest import command

_RUN = deriving._run


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(
        folder=tmp_path, store=open_store(str(tmp_path / "store"), make=True), capsys=capsys
    )


def inspect_here(subject: Path, name: str, document: Path, timeout: float) -> None:
    done = command(document.parent, "inspect", "--json", subject)
    document.write_text(done.stdout, encoding="utf-8")
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2].removeprefix("binary-checks: ")
        raise deriving._explain(name, LimitedEnd(done.returncode, last))


@pytest.fixture(scope="module", autouse=True)
def inspected_here() -> Iterator[None]:
    """Have packages inspected in this process, which takes a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deriving, "_run", inspect_here)
        yield


@pytest.fixture
def inspecting_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have packages inspected as users have it: in a limited process of its own."""
    monkeypatch.setattr(deriving, "_run", _RUN)
