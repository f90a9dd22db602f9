"""The plan of a night: each cell's bytes, and the states that the plan decides."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from binary_checks.fleet.stored_nights import read_plan, write_plan
from binary_checks.model import CellState
from binary_checks.sources.remote import find_stored
from fixtures.build_wheel import build_wheel
from fixtures.package_index import Conduct, PackageIndex
from tests.fleet.nights.made_plans import (
    CELLS,
    LINUX,
    WINDOWS,
    digest,
    index,
    offer,
    plan,
    planned,
)

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")
__all__ = ["index"]  # a fixture


def test_each_cell_stands_for_the_file_that_pip_would_take_there(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.serial = "4711"
    offer(index, tmp_path, f"cp311-cp311-{LINUX}", "0.9")
    newest = offer(index, tmp_path, f"cp311-cp311-{LINUX}", uploaded="2026-11-19T01:02:03Z")
    other = offer(index, tmp_path, f"cp312-cp312-{WINDOWS}")
    cells = planned(tmp_path, CELLS)
    found = cells["demo-linux-x86_64-3.11"]
    assert found.state is None
    assert (found.file_name, found.name, found.version) == (newest.name, "demo", "1.0")
    assert found.url == f"{index.url}/files/{newest.name}"
    assert (found.sha256, found.size) == (digest(newest), newest.stat().st_size)
    assert (found.uploaded, found.serial) == ("2026-11-19T01:02:03Z", "4711")
    assert found.index == index.simple
    assert cells["demo-windows-amd64-3.12"].sha256 == digest(other)


def test_a_project_is_asked_for_once_a_night_and_no_file_is_fetched(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    made = plan(tmp_path, CELLS).plan
    assert len(made.cells) == 6
    assert {each.state for each in made.cells} == {None}
    assert index.asked == ["/simple/demo/"]
    assert read_plan(write_plan(made), "plan") == made
    assert made.versions.keys() == {"binary-checks", "python"}


def test_what_is_not_published_for_a_cell_is_missing_with_what_there_is_instead(
    index: PackageIndex, tmp_path: Path
) -> None:
    cells = planned(tmp_path, CELLS)
    assert {each.state for each in cells.values()} == {CellState.MISSING}
    assert "no such project" in cells["demo-linux-x86_64-3.11"].reason
    offer(index, tmp_path, f"cp311-cp311-{LINUX}")
    cells = planned(tmp_path, CELLS)
    lacking = cells["demo-windows-amd64-3.12"]
    assert lacking.state is CellState.MISSING
    assert lacking.reason.startswith(
        f"demo: no wheel for cp312 on win_amd64; 1.0 has cp311-cp311-{LINUX}"
    )
    assert (lacking.url, lacking.sha256) == ("", "")
    assert cells["demo-linux-x86_64-3.11"].state is None


@pytest.mark.parametrize(
    ("version", "uploaded", "reason"),
    [
        ("1.0.dev20261118", "", ""),
        ("1.0.dev20261101", "", "it was built 2026-11-01, 19 days ago; 2 are allowed"),
        ("1.0.dev20261117", "", "it was built 2026-11-17, 3 days ago; 2 are allowed"),
        ("1.0", "2026-11-18T23:59:59Z", ""),
        ("1.0", "2026-11-17T23:59:59Z", "it was uploaded 2026-11-17, 3 days ago; 2 are allowed"),
    ],
)
def test_what_is_older_than_the_channel_allows_is_stale(
    version: str, uploaded: str, reason: str, index: PackageIndex, tmp_path: Path
) -> None:
    path = offer(index, tmp_path, "py3-none-any", version, uploaded=uploaded)
    channel = f'source = "nightly"\n[sources.nightly]\nindex = "{index.simple}"\nfreshness = 2\n'
    found = {(each.state, each.reason) for each in planned(tmp_path, CELLS + channel).values()}
    assert found == {(CellState.STALE, f"{path.name}: {reason}") if reason else (None, "")}


def test_without_a_day_in_version_or_index_the_servers_own_decides(
    index: PackageIndex, tmp_path: Path
) -> None:
    path = offer(index, tmp_path, "py3-none-any")
    served = Conduct(last_modified="Sun, 01 Nov 2026 10:00:00 GMT")
    index.conduct[f"/files/{path.name}"] = served
    channel = f'source = "nightly"\n[sources.nightly]\nindex = "{index.simple}"\nfreshness = 2\n'
    found = planned(tmp_path, CELLS + channel)
    assert {each.state for each in found.values()} == {CellState.STALE}
    served.last_modified = ""
    found = planned(tmp_path, CELLS + channel)
    assert {each.state for each in found.values()} == {None}
    assert "it is unknown whether it is stale" in next(iter(found.values())).reason


def test_the_variant_of_a_cell_chooses_its_index(index: PackageIndex, tmp_path: Path) -> None:
    built = {
        variant: build_wheel(tmp_path / variant, tags=["py3-none-any"], version=f"1.0+{variant}")
        for variant in ("cpu", "cu126")
    }
    for variant, path in built.items():
        index.files[path.name] = path
        page = f'<a href="/files/{path.name}#sha256={digest(path)}">x</a>'
        index.conduct[f"/whl/{variant}/demo/"].body = page.encode()
        index.conduct[f"/whl/{variant}/demo/"].content_type = "text/html"
    text = (
        f'[sources.w]\nindex = "{index.url}/whl/{{variant}}"\n'
        '[[cells]]\nproject = "demo"\nvariant = ["cpu", "cu126"]\nsource = "w"\n'
    )
    cells = planned(tmp_path, text)
    assert [each.sha256 for each in cells.values()] == [*map(digest, built.values())]
    page = index.conduct["/whl/cpu/demo/"].body or b""
    assert cells["demo-cpu-w"].serial == hashlib.sha256(page).hexdigest()


def test_a_file_without_a_stated_hash_is_downloaded_once_and_hashed(
    index: PackageIndex, tmp_path: Path
) -> None:
    path = offer(index, tmp_path, "py3-none-any", sha256="")
    cells = planned(tmp_path, CELLS)
    assert {each.sha256 for each in cells.values()} == {digest(path)}
    asked = len(index.asked)
    assert {each.sha256 for each in planned(tmp_path, CELLS).values()} == {digest(path)}
    assert len(index.asked) == asked + 2  # the page, and the state of the file
    # The cell does not download it again, which asks for a URL with that hash.
    kept = find_stored(digest(path), path.name, None)
    assert kept is not None
    assert kept.path.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("conduct", "said"),
    [
        (Conduct(html=True), "a web page (HTML), but not of an index"),
        (Conduct(failures=[500]), "answers 500"),
        (Conduct(failures=[403]), "answers 403"),
        (Conduct(body=b"{}", content_type="application/vnd.pypi.simple.v1+json"), "not the JSON"),
        (Conduct(cut_after=10), "cut"),
    ],
)
def test_an_index_that_cannot_be_asked_is_the_networks_fault_and_no_lack(
    conduct: Conduct, said: str, index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    index.conduct["/simple/demo/"] = conduct
    cells = planned(tmp_path, CELLS)
    assert {each.state for each in cells.values()} == {CellState.INFRA}
    assert all(said in each.reason and index.url in each.reason for each in cells.values())


@pytest.mark.slow
def test_an_index_that_stalls_is_given_up(
    index: PackageIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_TIMEOUT", "1")
    offer(index, tmp_path, "py3-none-any")
    index.conduct["/simple/demo/"] = Conduct(pause=5)
    cells = planned(tmp_path, CELLS)
    assert {each.state for each in cells.values()} == {CellState.INFRA}


def test_an_index_that_never_answers_is_not_asked_for_every_project(
    index: PackageIndex, tmp_path: Path
) -> None:
    index.conduct["*"] = Conduct(failures=[403] * 500)
    names = [f"p{number}" for number in range(60)]
    cells = planned(tmp_path, f"[[cells]]\nproject = {names}\n")
    assert {each.state for each in cells.values()} == {CellState.INFRA}
    assert len(index.asked) < 20
    assert sum("other projects failed, too" in each.reason for each in cells.values()) > 40


def test_a_folder_is_a_channel_by_the_names_of_its_files(
    index: PackageIndex, tmp_path: Path
) -> None:
    channel = 'source = "own"\n[sources.own]\nfolder = "dist"\n'
    found = next(iter(planned(tmp_path, CELLS + channel).values()))
    assert (found.state, found.reason) == (CellState.INFRA, f"{tmp_path}/dist: no such folder")
    path = build_wheel(tmp_path / "dist", tags=[f"cp311-cp311-{LINUX}"])
    cells = planned(tmp_path, CELLS + channel)
    found = cells["demo-linux-x86_64-3.11-own"]
    assert (found.state, found.sha256, found.url) == (None, digest(path), path.as_uri())
    assert cells["demo-windows-amd64-3.11-own"].state is CellState.MISSING
    assert index.asked == []


def test_a_libtorch_archive_is_found_by_its_url_and_hashed(
    index: PackageIndex, tmp_path: Path
) -> None:
    path = tmp_path / "libtorch-shared-with-deps-2.9.0+cpu.zip"
    path.write_bytes(b"PK\5\6" + bytes(18))
    index.files[path.name] = path
    text = (
        '[[cells]]\nproject = "libtorch"\nkind = "libtorch"\nvariant = ["cpu", "cu126"]\n'
        'libtorch = "shared-with-deps"\nsystem = "linux-x86_64"\nsource = "zips"\n'
        f'[sources.zips]\nurl = "{index.url}/files/'
        'libtorch-{libtorch}-2.9.0%2B{variant}.zip"\n'
    )
    found, lacking = planned(tmp_path, text).values()
    assert (found.state, found.sha256, found.version) == (None, digest(path), "2.9.0+cpu")
    assert lacking.state is CellState.MISSING
    assert "not there (answers 404)" in lacking.reason


def test_a_package_may_be_a_path_or_a_url(index: PackageIndex, tmp_path: Path) -> None:
    path = build_wheel(tmp_path / "dist", tags=["py3-none-any"])
    index.files[path.name] = path
    text = (
        f'[[cells]]\nproject = "path"\npackage = "dist/{path.name}"\n'
        f'[[cells]]\nproject = "url"\npackage = "{index.url}/files/{path.name}"\n'
    )
    first, second = planned(tmp_path, text).values()
    assert (first.sha256, first.url) == (digest(path), path.as_uri())
    assert (second.sha256, second.url) == (digest(path), f"{index.url}/files/{path.name}")


def test_no_plan_keeps_what_may_be_secret_in_a_url(index: PackageIndex, tmp_path: Path) -> None:
    path = build_wheel(tmp_path, tags=["py3-none-any"])
    page = f'<a href="/files/{path.name}?token=geheim#sha256={digest(path)}">x</a>'
    index.conduct["/simple/demo/"].body = page.encode()
    index.conduct["/simple/demo/"].content_type = "text/html"
    found = plan(tmp_path, CELLS)
    assert found.plan.cells[0].state is CellState.INFRA
    assert "which may be secret and cannot be stored in a plan" in found.plan.cells[0].reason
    assert b"geheim" not in write_plan(found.plan)
