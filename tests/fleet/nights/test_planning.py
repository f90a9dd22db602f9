"""The plan of a night: which bytes each cell stands for, and which states are decided there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.cells.cells_file import read_cells
from binary_checks.fleet.nights.index_changes import compare_serials
from binary_checks.fleet.nights.planning import PreparedNight, make_plan
from binary_checks.fleet.plan import PlannedCell
from binary_checks.fleet.records import read_plan, write_plan
from binary_checks.fleet.states import CellState
from binary_checks.places import index_settings
from fixtures.build_wheel import build_wheel
from fixtures.package_index import Conduct, PackageIndex, serve_only_index

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")

NIGHT = "2026-11-20"
CELLS = """
[[cells]]
project = "demo"
system = ["linux-x86_64", "windows-amd64", "macos-arm64"]
python = ["3.11", "3.12"]
"""
LINUX, WINDOWS = "manylinux_2_17_x86_64", "win_amd64"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PackageIndex]:
    monkeypatch.setattr(index_settings, "has_pip", lambda: False)  # its variables are enough
    with serve_only_index(monkeypatch, tmp_path / "cache") as served:
        yield served


def plan(folder: Path, text: str) -> PreparedNight:
    (folder / "cells.toml").write_text(text, encoding="utf-8")
    return make_plan(read_cells(folder / "cells.toml"), NIGHT)


def planned(folder: Path, text: str) -> dict[str, PlannedCell]:
    return {each.cell.id: each for each in plan(folder, text).plan.cells}


def offer(index: PackageIndex, folder: Path, tag: str, version: str = "1.0", **said: str) -> Path:
    path = build_wheel(folder, version=version, tags=[tag], members={"demo/x.py": version})
    index.offer(path, "demo", **said)  # type: ignore[arg-type]
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
    cells = planned(tmp_path, CELLS)
    assert len(cells) == 6
    assert {each.state for each in cells.values()} == {None}
    assert index.asked == ["/simple/demo/"]


def test_what_is_not_published_for_a_cell_is_missing_with_what_there_is_instead(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, f"cp311-cp311-{LINUX}")
    cells = planned(tmp_path, CELLS)
    lacking = cells["demo-windows-amd64-3.12"]
    assert lacking.state is CellState.MISSING
    assert lacking.reason.startswith(
        f"demo: no wheel for cp312 on win_amd64; 1.0 has cp311-cp311-{LINUX}"
    )
    assert (lacking.url, lacking.sha256) == ("", "")
    assert cells["demo-linux-x86_64-3.11"].state is None


def test_a_project_that_the_index_does_not_know_is_missing(
    index: PackageIndex, tmp_path: Path
) -> None:
    cells = planned(tmp_path, CELLS)
    assert {each.state for each in cells.values()} == {CellState.MISSING}
    assert "no such project" in cells["demo-linux-x86_64-3.11"].reason


@pytest.mark.parametrize(
    ("version", "uploaded", "state"),
    [
        ("1.0.dev20261118", "", None),
        ("1.0.dev20261117", "", CellState.STALE),
        ("1.0", "2026-11-18T23:59:59Z", None),
        ("1.0", "2026-11-17T23:59:59Z", CellState.STALE),
    ],
)
def test_what_is_older_than_the_channel_allows_is_stale(
    version: str, uploaded: str, state: CellState | None, index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any", version, uploaded=uploaded)
    channel = f'channel = "nightly"\n[channels.nightly]\nindex = "{index.simple}"\nfreshness = 2\n'
    found = {each.state for each in planned(tmp_path, CELLS + channel).values()}
    assert found == {state}


def test_a_stale_cell_says_of_which_day_its_file_is(index: PackageIndex, tmp_path: Path) -> None:
    offer(index, tmp_path, "py3-none-any", "1.0.dev20261101")
    channel = f'channel = "nightly"\n[channels.nightly]\nindex = "{index.simple}"\nfreshness = 2\n'
    found = next(iter(planned(tmp_path, CELLS + channel).values()))
    assert found.reason == (
        "demo-1.0.dev20261101-py3-none-any.whl: it was built 2026-11-01, 19 days ago; 2 are allowed"
    )


def test_without_a_day_in_version_or_index_the_servers_own_decides(
    index: PackageIndex, tmp_path: Path
) -> None:
    path = offer(index, tmp_path, "py3-none-any")
    served = Conduct(last_modified="Sun, 01 Nov 2026 10:00:00 GMT")
    index.conduct[f"/files/{path.name}"] = served
    channel = f'channel = "nightly"\n[channels.nightly]\nindex = "{index.simple}"\nfreshness = 2\n'
    found = planned(tmp_path, CELLS + channel)
    assert {each.state for each in found.values()} == {CellState.STALE}
    served.last_modified = ""
    found = planned(tmp_path, CELLS + channel)
    assert {each.state for each in found.values()} == {None}
    assert "whether it is stale is not known" in next(iter(found.values())).reason


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
        f'[channels.w]\nindex = "{index.url}/whl/{{variant}}"\n'
        '[[cells]]\nproject = "demo"\nvariant = ["cpu", "cu126"]\nchannel = "w"\n'
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


@pytest.mark.parametrize(
    ("conduct", "said"),
    [
        (Conduct(html=True), "a web page (HTML) that is none of an index"),
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
    assert sum("nor did it answer for" in each.reason for each in cells.values()) > 40


def test_a_folder_is_a_channel_by_the_names_of_its_files(
    index: PackageIndex, tmp_path: Path
) -> None:
    path = build_wheel(tmp_path / "dist", tags=[f"cp311-cp311-{LINUX}"])
    channel = 'channel = "own"\n[channels.own]\nfolder = "dist"\n'
    cells = planned(tmp_path, CELLS + channel)
    found = cells["demo-linux-x86_64-3.11-own"]
    assert (found.state, found.sha256, found.url) == (None, digest(path), path.as_uri())
    assert cells["demo-windows-amd64-3.11-own"].state is CellState.MISSING
    assert index.asked == []


def test_a_folder_that_is_not_there_says_nothing_of_what_is_published(tmp_path: Path) -> None:
    channel = 'channel = "own"\n[channels.own]\nfolder = "dist"\n'
    found = next(iter(planned(tmp_path, CELLS + channel).values()))
    assert (found.state, found.reason) == (CellState.INFRA, f"{tmp_path}/dist: no such folder")


def test_a_libtorch_archive_is_found_by_its_url_and_hashed(
    index: PackageIndex, tmp_path: Path
) -> None:
    path = tmp_path / "libtorch-shared-with-deps-2.9.0+cpu.zip"
    path.write_bytes(b"PK\5\6" + bytes(18))
    index.files[path.name] = path
    text = (
        '[[cells]]\nproject = "libtorch"\nkind = "libtorch"\nvariant = ["cpu", "cu126"]\n'
        'libtorch = "shared-with-deps"\nsystem = "linux-x86_64"\nchannel = "zips"\n'
        f'[channels.zips]\nurl = "{index.url}/files/'
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
    assert "which may be secret: no plan keeps it" in found.plan.cells[0].reason
    assert b"geheim" not in write_plan(found.plan)


def test_a_plan_is_the_same_once_it_was_written_and_read(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    made = plan(tmp_path, CELLS).plan
    assert read_plan(write_plan(made), "plan") == made
    assert made.versions.keys() == {"binary-checks", "python"}


def test_profiles_known_problems_and_causes_are_frozen_with_all_that_they_name(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "own.toml").write_text('extends = "base.toml"\nchecks = ["own.py"]\n')
    (tmp_path / "conf" / "base.toml").write_text('disable = ["missing-library"]\n')
    (tmp_path / "conf" / "own.py").write_text("# no checks\n")
    (tmp_path / "known.toml").write_text(
        '[[known_problems]]\ncheck = "missing-library"\nreason = "x"\n'
    )
    text = (
        '[night]\nknown_problems = "known.toml"\n'
        f'{CELLS}[[run]]\nwhen = "project=demo"\nprofile = "conf/own.toml"\n'
    )
    made = plan(tmp_path, text)
    frozen = {path: made.frozen[sha256] for path, sha256 in made.plan.profiles.items()}
    assert frozen.keys() == {"conf/own.toml", "conf/base.toml", "conf/own.py"}
    assert frozen["conf/base.toml"] == b'disable = ["missing-library"]\n'
    assert made.plan.cells[0].profile == digest(tmp_path / "conf" / "own.toml")
    assert made.plan.known_sha256 == digest(tmp_path / "known.toml")
    assert made.frozen[made.plan.cells_sha256] == text.encode()
    assert all(hashlib.sha256(each).hexdigest() == name for name, each in made.frozen.items())


def test_causes_are_frozen_and_bad_ones_end_the_plan(index: PackageIndex, tmp_path: Path) -> None:
    (tmp_path / "causes.toml").write_text("")
    made = plan(tmp_path, '[night]\ncauses = "causes.toml"\n' + CELLS)
    assert made.plan.causes_sha256 == digest(tmp_path / "causes.toml")
    (tmp_path / "causes.toml").write_text("[[cause]]\n")
    with pytest.raises(ProfileError, match=r"causes\.toml: unknown key 'cause'"):
        plan(tmp_path, '[night]\ncauses = "causes.toml"\n' + CELLS)


def test_without_known_problems_that_can_be_read_no_waiver_holds_and_the_plan_says_so(
    index: PackageIndex, tmp_path: Path
) -> None:
    (tmp_path / "known.toml").write_text("[[known_problem]]\n")
    made = plan(tmp_path, '[night]\nknown_problems = "known.toml"\n' + CELLS).plan
    assert made.known_sha256 == ""
    assert "unknown key 'known_problem'; did you mean 'known_problems'?" in made.known_complaint


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ('profile = "nowhere.toml"', "No such file"),
        ('profile = "torhc"', "neither a shipped profile nor a .toml file"),
    ],
)
def test_a_profile_that_is_not_there_ends_the_plan(rule: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=said):
        plan(tmp_path, f'{CELLS}[[run]]\nwhen = "project=demo"\n{rule}\n')


def test_a_night_is_a_day(tmp_path: Path) -> None:
    (tmp_path / "cells.toml").write_text(CELLS)
    matrix = read_cells(tmp_path / "cells.toml")
    for night in ("20261120", "2026-11-31", "tonight"):
        with pytest.raises(ProfileError, match="not a date"):
            make_plan(matrix, night)


def changes(folder: Path, made: PreparedNight) -> dict[str, str]:
    found = compare_serials(made.plan, read_cells(folder / "cells.toml"))
    return {each.cell: each.reason for each in found}


def test_an_index_that_did_not_change_is_no_change(index: PackageIndex, tmp_path: Path) -> None:
    offer(index, tmp_path, "py3-none-any")
    made = plan(tmp_path, CELLS)
    index.serial = "9"  # the page changed for another file
    assert changes(tmp_path, made) == {}


def test_a_new_version_a_replaced_file_and_a_removed_one_are_told_apart(
    index: PackageIndex, tmp_path: Path
) -> None:
    for tag in (f"cp311-cp311-{LINUX}", f"cp311-cp311-{WINDOWS}", "cp311-cp311-macosx_11_0_arm64"):
        offer(index, tmp_path, tag)
    index.serial = "1"
    made = plan(tmp_path, CELLS)
    index.pages["demo"].clear()
    index.serial = "2"
    offer(index, tmp_path, f"cp311-cp311-{LINUX}", "1.1")
    offer(index, tmp_path, f"cp311-cp311-{WINDOWS}", sha256="0" * 64)
    assert {
        cell: reason.partition(": demo")[0] for cell, reason in changes(tmp_path, made).items()
    } == {
        "demo-linux-x86_64-3.11": f"demo-1.1-cp311-cp311-{LINUX}.whl is there now, "
        f"demo-1.0-cp311-cp311-{LINUX}.whl was planned (serial 1, then 2)",
        "demo-macos-arm64-3.11": "demo-1.0-cp311-cp311-macosx_11_0_arm64.whl is not there any more "
        "(serial 1, then 2)",
        "demo-windows-amd64-3.11": f"demo-1.0-cp311-cp311-{WINDOWS}.whl was replaced under its "
        f"name: sha256 {made_hash(made, 'demo-windows-amd64-3.11')}… was planned, 000000000000… is "
        "there now (serial 1, then 2)",
    }


def made_hash(made: PreparedNight, cell: str) -> str:
    return next(each.sha256[:12] for each in made.plan.cells if each.cell.id == cell)


def test_an_index_that_cannot_be_asked_again_is_no_answer(
    index: PackageIndex, tmp_path: Path
) -> None:
    offer(index, tmp_path, "py3-none-any")
    made = plan(tmp_path, CELLS)
    index.conduct["/simple/demo/"] = Conduct(failures=[500])
    assert all(
        reason.startswith("could not be asked again: ") and "answers 500" in reason
        for reason in changes(tmp_path, made).values()
    )
