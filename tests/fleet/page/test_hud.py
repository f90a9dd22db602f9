"""``binary-checks hud`` and ``binary-checks nightly summary`` over a store of synthetic nights."""

from __future__ import annotations

import gzip
import html
import json
import re
import shlex
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.command.actions import NIGHTLY
from binary_checks.fleet.page import evidence
from binary_checks.fleet.store import closed_name, open_store, plan_name, result_name, table_name
from binary_checks.fleet.stored_nights import read_plan
from binary_checks.model import CellState
from fixtures.fleet.nights import Nights, make_nights
from fixtures.fleet.object_store import BUCKET, ObjectStore
from fixtures.fleet.script_of_nights import ROLES

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return make_nights(tmp_path_factory.mktemp("store") / "store", cells=8, nights=4)


def hud(store: Path, out: Path, *options: str) -> int:
    return main(["hud", str(out), "--store", str(store), *options])


def read(path: Path) -> str:
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def site(nights: Nights, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "site"
    assert hud(nights.folder, out) == 0
    return out


def test_every_cell_has_a_page_and_a_badge_and_the_index_says_what_the_store_knows(
    nights: Nights, site: Path
) -> None:
    cells = {cell.id for cell in nights.cells}
    assert {path.stem for path in (site / "cells").iterdir()} == cells
    assert {path.stem for path in (site / "badges" / "cells").iterdir()} == cells
    projects = {cell.project for cell in nights.cells}
    assert {path.stem for path in (site / "badges" / "projects").iterdir()} == projects
    page = read(site / "index.html")
    states = nights.states[nights.tonight]
    for state in CellState:
        number = [*states.values()].count(state)
        assert (f"<b>{number}</b> {state.value}" in page) == bool(number), state


def test_the_page_of_a_broken_cell_has_problems_change_history_and_log(
    nights: Nights, site: Path
) -> None:
    cell = nights.cell(ROLES.breaks_tonight)
    page = read(site / "cells" / f"{cell}.html")
    assert 'failed</span> <span class="quiet">since tonight' in page
    assert 'href="../checks.html#missing-library"' in page
    assert "needs libfoo.so.1, which neither the package nor" in page
    assert re.search(r"What changed.*which passed on", page)
    assert "The end of the log" in page
    command = html.unescape(
        re.search(r'<pre class="commands" tabindex="0"><bdi>(.*?)</bdi>', page)[1]
    )  # type: ignore[index]
    plan = read_plan((nights.folder / plan_name(nights.tonight)).read_bytes(), "plan.json")
    planned = next(each for each in plan.cells if each.cell.id == cell)
    assert f"{planned.url}#sha256={planned.sha256}" in shlex.split(command)
    assert f'id="n{nights.nights[0]}"' in page
    assert 'id="missing-library"' in read(site / "checks.html")


def test_what_could_not_be_read_and_a_plan_that_is_gone_are_named_on_the_index(
    tmp_path: Path,
) -> None:
    found = make_nights(tmp_path / "store", cells=3, nights=2)
    path = found.folder / closed_name(found.tonight)
    closed = json.loads(path.read_bytes())
    closed["complaints"] = ["demo-2.cpu1.json: not JSON"]
    path.write_text(json.dumps(closed))
    (found.folder / plan_name(found.tonight)).unlink()
    assert hud(found.folder, tmp_path / "site") == 0
    page = read(tmp_path / "site" / "index.html")
    assert "demo-2.cpu1.json: not JSON" in page
    assert "plan.json is missing" in page


def test_one_store_makes_one_site(nights: Nights, site: Path, tmp_path: Path) -> None:
    assert hud(nights.folder, tmp_path / "again") == 0
    for path in site.rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.relative_to(site)).read_bytes()


def test_only_one_project_is_shown_where_that_is_asked(nights: Nights, tmp_path: Path) -> None:
    project = nights.cells[0].project
    assert hud(nights.folder, tmp_path, "--project", project) == 0
    assert [path.stem for path in (tmp_path / "badges" / "projects").iterdir()] == [project]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--nights", "0"], "argument --nights: '0' is not a number of 1 or more"),
        (["--nights", "many"], "argument --nights: 'many' is not a number"),
        (["--project", "nobody"], "--project 'nobody': no cells of this project"),
    ],
)
def test_what_is_asked_amiss_is_one_line(
    nights: Nights,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    assert hud(nights.folder, tmp_path / "site", *options) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "site").exists()


def test_a_folder_with_something_else_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.tex").write_text("years")
    assert hud(tmp_path / "no-store", tmp_path) == 4
    assert "holds 'thesis.tex' already" in capsys.readouterr().err


def test_what_the_store_lost_of_a_cell_is_said_on_its_page_and_costs_no_other(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "store"
    found = make_nights(folder, cells=3, nights=3)
    cell, night = found.cell(ROLES.breaks_tonight), found.tonight
    (folder / result_name(night, cell, "cpu", 1)).write_bytes(b'{"schema": "binary-checks/att')
    for log in (folder / f"night={night}" / "failed").glob(f"{cell}.cpu1.*.log"):
        log.unlink()
    for facts in (folder / "facts").rglob("*.gz"):
        facts.write_bytes(gzip.compress(b"[[[")[:-4])
    assert hud(folder, tmp_path / "site") == 0
    page = read(tmp_path / "site" / "cells" / f"{cell}.html")
    assert page.count("Not shown:") == 3
    assert len([*(tmp_path / "site" / "cells").iterdir()]) == 3


def test_a_night_that_is_not_over_is_named_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = make_nights(tmp_path / "store", cells=3, nights=3)
    (found.folder / closed_name(found.tonight)).unlink()
    assert hud(found.folder, tmp_path / "site") == 0
    page = read(tmp_path / "site" / "index.html")
    assert f"The night of {found.tonight} is not collected yet" in page
    assert f'<time datetime="{found.nights[-2]}">' in page
    assert summarise(found, "--date", found.tonight) == 6
    assert "is not collected yet: `binary-checks nightly collect --date" in capsys.readouterr().err


def test_where_too_much_is_broken_pages_give_the_command_that_compares(
    nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_COMPARED", 0)
    assert hud(nights.folder, tmp_path / "site") == 0
    cell = nights.cell(ROLES.breaks_tonight)
    page = read(tmp_path / "site" / "cells" / f"{cell}.html")
    assert f"binary-checks diff store:{cell}@{nights.nights[-2]} store:{cell}@" in page


def summarise(found: Nights, *options: str) -> int:
    return main(["nightly", "summary", "--store", str(found.folder), *options])


def test_the_mail_names_what_broke_and_fits_a_screen(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    assert summarise(nights) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{nights.tonight}: 1 check broke in")
    assert "Broke tonight:" in lines
    assert nights.cell(ROLES.breaks_tonight) in "\n".join(lines)
    assert len(lines) <= 40
    summarise(nights, "--date", nights.nights[0])  # as it was
    assert capsys.readouterr().out.startswith(f"{nights.nights[0]}: ")


def test_the_command_at_the_end_of_the_mail_works(
    nights: Nights, capsys: pytest.CaptureFixture[str]
) -> None:
    summarise(nights)
    (line,) = (each for each in capsys.readouterr().out.splitlines() if each.startswith("More: "))
    program, *arguments = shlex.split(line.removeprefix("More: "))
    assert (program, main(arguments)) == ("binary-checks", 0)
    shown = capsys.readouterr().out
    assert shown.startswith(f"X {nights.cell(ROLES.breaks_tonight)}  {nights.tonight}: failed")
    summarise(nights, "--markdown")
    out = capsys.readouterr().out
    assert out.startswith(f"## {nights.tonight}: ")
    # As code, because it comes from outside.
    assert re.search(r"^- `.*missing-library.*` in \d+ cells? since tonight: `", out, re.M)
    assert out.endswith(f"\n\nMore: `{line.removeprefix('More: ')}`\n")


def test_the_mail_of_a_good_night_is_three_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nights: Nights
) -> None:
    project = nights.cells[0].project
    assert nights.states[nights.tonight][nights.cells[0].id] is CellState.PASSED
    assert summarise(nights, "--project", project) == 0
    out = capsys.readouterr().out
    assert "All is well in 1 cell" in out
    assert len(out.splitlines()) <= 3


def test_a_reader_that_has_gone_is_no_complaint(
    nights: Nights, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Gone(StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(32, "Broken pipe")

        def writelines(self, lines: Iterable[str], /) -> None:
            self.write("".join(lines))

    monkeypatch.setattr("sys.stdout", Gone())
    with pytest.raises(BrokenPipeError):
        NIGHTLY.run(["summary", "--store", str(nights.folder)])
    assert capsys.readouterr().err == ""


def test_a_page_and_a_mail_fetch_only_tables_and_nights_that_they_look_at(tmp_path: Path) -> None:
    found = make_nights(tmp_path / "store", cells=3, nights=3)
    first, *_, last = found.nights
    for night in found.nights:
        (found.folder / table_name(night, "objects")).unlink()
    assert hud(found.folder, tmp_path / "site") == 0
    for table in ("cells", "checks", "parts"):
        (found.folder / table_name(last, table)).unlink()
    assert summarise(found, "--date", first) in (0, 1)
    assert summarise(found) == 6


@pytest.mark.parametrize(
    ("date", "status", "said"),
    [("2020-01-01", 6, "no night 2020-01-01"), ("yesterday", 4, "--date 'yesterday': not a date")],
)
def test_a_night_that_is_not_there_is_one_line(
    nights: Nights, capsys: pytest.CaptureFixture[str], date: str, status: int, said: str
) -> None:
    assert summarise(nights, "--date", date) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.slow
def test_a_store_in_a_bucket_makes_the_same_site(
    server: ObjectStore, site: Path, nights: Nights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bucket = open_store(f"s3://{BUCKET}/hud", make=True)
    for path in sorted(nights.folder.rglob("*")):
        name = path.relative_to(nights.folder).as_posix()
        if path.is_file() and "/" in name:
            bucket.create(name, path)
    assert main(["hud", str(tmp_path / "site"), "--store", bucket.url]) == 0
    for path in site.rglob("*"):
        if path.is_file():
            assert (tmp_path / "site" / path.relative_to(site)).read_bytes() == path.read_bytes()
