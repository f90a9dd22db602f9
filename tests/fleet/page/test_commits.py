"""Pages of commits and pull requests, from the artifacts of a store and their verdicts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.fleet.artifacts import Artifact, write_artifact
from binary_checks.fleet.page.commits import CommitPages, read_commits
from binary_checks.fleet.page.night_reading import NightView
from binary_checks.fleet.page.site import make_commit_site, make_site
from binary_checks.fleet.store import Store, artifact_name, open_store, verdict_prefix
from fixtures.fleet.commits import SAID, commit_of, push_builds
from fixtures.histories import history, update
from tests.fleet.page.test_index_page import Reader, nothing

A, B, C = map(commit_of, range(3))
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m\n::error::"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), make=True)


def read(store: Store, found: NightView | None = None, **options: object) -> CommitPages:
    return read_commits(store, found, **{"shown": 30, **options})  # type: ignore[arg-type]


def verdicts(pages: CommitPages) -> dict[str, dict[str, str]]:
    """The verdicts of each commit's builds, by label."""
    return {
        page["commit"]: {build["label"]: build["verdict"] for build in page["builds"]}
        for page in pages.commits
    }


def test_a_commit_has_its_builds_with_their_verdicts_the_failing_ones_first(store: Store) -> None:
    push_builds(store, A, {"3.11": "P", "3.12": "X", "3.13": "?"})
    (page,) = read(store).commits
    assert [(build["label"], build["verdict"], build["reason"]) for build in page["builds"]] == [
        ("py3.12", "failing", f"missing-library: demo/a.so: {SAID}"),
        ("py3.13", "untested", ""),
        ("py3.11", "passed", ""),
    ]
    assert page["counts"] == {"passed": 1, "failing": 1, "untested": 1}
    assert page["pushed"] == "2026-11-20 01:00"


def test_the_newest_commits_are_first_and_older_ones_are_counted(store: Store) -> None:
    for day, commit in enumerate((B, A, C), start=1):
        push_builds(store, commit, {"3.12": "P"}, pushed=f"2026-11-0{day}T01:00:00Z")
    pages = read(store, shown=2)
    assert [page["commit"] for page in pages.commits] == [C, A]
    assert pages.left_out == 1
    assert read(store, shown=0).commits == ()


def test_pull_requests_have_their_commits_the_newest_first(store: Store) -> None:
    push_builds(store, A, {"3.12": "P"}, pushed="2026-11-01T01:00:00Z", pull_request="7")
    push_builds(store, B, {"3.12": "P"}, pushed="2026-11-02T01:00:00Z")
    push_builds(store, C, {"3.12": "X"}, pushed="2026-11-03T01:00:00Z", pull_request="7")
    pulls = read(store).pulls
    assert {number: [page["commit"] for page in of] for number, of in pulls.items()} == {
        "7": [C, A]
    }


def test_a_build_without_a_verdict_is_what_a_night_found(store: Store) -> None:
    found = history({"demo-linux": "··X", "demo-macos": "···", "demo-windows": "··I"})
    for number, cell in enumerate(("demo-linux", "demo-macos", "demo-windows"), start=1):
        digest = "UPDATE all_cells SET sha256 = ? WHERE cell = ?"
        found.connection.execute(digest, [f"{number}" * 64, cell])
    digests = dict(zip(("3.11", "3.12", "3.13"), (each * 64 for each in "123"), strict=True))
    push_builds(store, A, dict.fromkeys(digests, "?"), sha256=digests)
    pages = read(store, found)
    assert verdicts(pages)[A] == {"py3.11": "failing", "py3.12": "passed", "py3.13": "untested"}
    failing = pages.commits[0]["builds"][0]
    assert (
        failing["reason"]
        == "missing-library: demo/a.so: needs libgone.so.1, which nothing provides"
    )
    assert [(each["cell"], each["state"], each["href"]) for each in failing["nights"]] == [
        ("demo-linux", "failed", "cells/demo-linux.html")
    ]


def test_a_build_that_names_no_commit_is_left_out(store: Store) -> None:
    for number, commit in enumerate(("", "../../../etc/passwd", "abc1234"), start=1):
        artifact = Artifact(
            sha256=f"{number}" * 64, file_name="demo.whl", size=1, kind="wheel", project="demo",
            commit=commit,
        )  # fmt: skip
        store.create(artifact_name(artifact.sha256), write_artifact(artifact))
    assert read(store).commits == ()


def test_only_the_commits_of_a_project_are_shown_where_that_is_asked(store: Store) -> None:
    push_builds(store, A, {"3.12": "P"})
    assert read(store, project="demo").commits
    assert not read(store, project="other").commits
    made = draw(read(store, project="other"))
    assert not [name for name in made if name.startswith(("commit", "pull"))]
    assert b"commits.html" not in made["index.html"]


def test_what_cannot_be_read_is_named_and_the_rest_is_shown(store: Store) -> None:
    push_builds(store, A, {"3.12": "P"})
    store.create(artifact_name("f" * 64), b"{")
    store.create(
        f"{verdict_prefix(read(store).commits[0]['builds'][0]['sha256'])}{'0' * 64}.json", b"{}"
    )
    pages = read(store)
    assert len(pages.complaints) == 2
    assert verdicts(pages)[A] == {"wheel linux x86_64 py3.12": "passed"}


def draw(pages: CommitPages) -> dict[str, bytes]:
    found = history({"demo-linux": "··X", "demo-macos": "···"})
    return dict(make_site(found, nothing, commits=pages))


def test_every_link_of_these_pages_leads_to_a_file_of_the_site(store: Store) -> None:
    push_builds(store, A, {"3.11": "P", "3.12": "X"}, pull_request="7")
    push_builds(store, B, {"3.11": "P", "3.12": "?"}, pull_request="7")
    made = draw(read(store))
    names = {f"commits/{A}.html", f"commits/{B}.html", "pulls/7.html", "commits.html"}
    assert names <= made.keys()
    assert "commits.html" in Reader(made["index.html"]).links
    for name in names:
        for link in Reader(made[name]).links:
            path, _, anchor = link.partition("#")
            target = re.sub(r"^\.\./", "", path) if "/" in name else path
            assert target in made, (name, link)
            assert not anchor or f'id="{anchor}"'.encode() in made[target], (name, link)


def test_the_page_of_a_cell_links_to_the_commit_of_its_package(store: Store) -> None:
    found = history({"demo-linux": "··X"})
    update(found, sha256="a" * 64)
    push_builds(store, A, {"3.12": "?"}, sha256={"3.12": "a" * 64})
    made = dict(make_site(found, nothing, commits=read(store, found)))
    assert f"../commits/{A}.html" in Reader(made["cells/demo-linux.html"]).links


def test_what_verdicts_say_stays_text(store: Store) -> None:
    push_builds(store, A, {"3.12": "X"}, said=HOSTILE)
    made = dict(make_commit_site(read(store)))
    page = made[f"commits/{A}.html"].decode()
    assert "<script>" not in page.partition("<body>")[2]
    assert "&lt;script&gt;" in page
    assert "\u202e" not in page
    assert "\x1b" not in page


def test_a_store_without_nights_has_a_site_of_its_commits(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    site = tmp_path / "site"
    assert main(["hud", str(site), "--store", store.url]) == 6
    assert "no night is closed yet" in capsys.readouterr().err
    push_builds(store, A, {"3.12": "X"})
    assert main(["hud", str(site), "--store", store.url]) == 0
    assert "1 commit, no night" in capsys.readouterr().out
    index = Reader((site / "index.html").read_bytes())
    assert f"commits/{A}.html" in index.links
    page = Reader((site / "commits" / f"{A}.html").read_bytes())
    assert "../index.html" in page.links


def test_a_number_of_commits_that_is_none_is_one_line(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["hud", str(tmp_path / "site"), "--store", store.url, "--commits", "many"]
    assert main(arguments) == 4
    assert "argument --commits: invalid int value: 'many'" in capsys.readouterr().err
