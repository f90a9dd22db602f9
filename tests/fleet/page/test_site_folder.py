"""The folder of a site: complete pages, and no files of others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.page.site_folder import write_site

LIST = ".binary-checks-hud.json"


def names(folder: Path) -> list[str]:
    found = (each for each in folder.rglob("*") if each.is_file())
    return sorted(each.relative_to(folder).as_posix() for each in found)


def test_a_site_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "site"
    assert write_site(out, [("cells/a.html", b"a"), ("index.html", b"one")]) == 4
    write_site(out, [("cells/b.html", b"b"), ("index.html", b"two")])
    assert names(out) == [LIST, "cells/b.html", "index.html"]
    assert (out / "index.html").read_bytes() == b"two"
    write_site(out, [("index.html", b"")])
    assert not (out / "cells").exists()


def test_the_folder_that_a_site_is_made_in_must_be_there_and_hold_nothing_else(
    tmp_path: Path,
) -> None:
    with pytest.raises(ProfileError, match=r"there is no folder .*: make it first"):
        write_site(tmp_path / "gone" / "site", [("index.html", b"")])
    assert names(tmp_path) == []
    (tmp_path / "thesis.tex").write_text("years")
    with pytest.raises(ProfileError, match=r"holds 'thesis.tex' already"):
        write_site(tmp_path, [("index.html", b"")])
    assert names(tmp_path) == ["thesis.tex"]


def test_a_file_that_hud_did_not_make_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    write_site(tmp_path, [("index.html", b"")])
    (tmp_path / "CNAME").write_text("hud.example")
    write_site(tmp_path, [("index.html", b"new")])
    with pytest.raises(ProfileError, match="holds 'CNAME', which hud did not make"):
        write_site(tmp_path, [("CNAME", b""), ("index.html", b"newest")])
    assert (tmp_path / "CNAME").read_text() == "hud.example"
    assert (tmp_path / "index.html").read_bytes() == b"new"


def test_a_list_that_leads_elsewhere_removes_nothing_there(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("years")
    out = tmp_path / "site"
    out.mkdir()
    listed = {"schema": "binary-checks/hud/1", "files": ["../precious", str(precious), "a\nb", 7]}
    (out / LIST).write_text(json.dumps(listed))
    write_site(out, [("index.html", b"")])
    assert precious.read_text() == "years"


@pytest.mark.parametrize("text", ["", "{}", "[]", "[" * 100_000, '{"schema": "x", "files": []}'])
def test_a_list_that_hud_did_not_write_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / LIST).write_text(text)
    with pytest.raises(ProfileError, match="not a list that hud wrote"):
        write_site(tmp_path, [("index.html", b"")])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_list_behind_a_pipe_is_refused_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LIST)
    with pytest.raises(ProfileError, match="not a list that hud wrote"):
        write_site(tmp_path, [("index.html", b"")])


def test_what_breaks_while_pages_are_made_leaves_the_old_site(tmp_path: Path) -> None:
    write_site(tmp_path, [("a.html", b"a"), ("index.html", b"old")])

    def made() -> Iterator[tuple[str, bytes]]:
        yield "a.html", b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_site(tmp_path, made())
    assert (tmp_path / "a.html").read_bytes() == b"a"
    assert names(tmp_path) == [LIST, "a.html", "index.html"]


KILLED = """
import sys, time
from pathlib import Path
from binary_checks.fleet.page.site_folder import write_site
def made():
    for number in range(40):
        yield f"cells/{number}.html", b"new"
    print("half", flush=True)
    time.sleep(60)
write_site(Path(sys.argv[1]), made())
"""


def run_and_kill(out: Path) -> None:
    """Make a site, and be killed with all of its pages but the index made."""
    command = [sys.executable, "-c", KILLED, str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"half\n"
        process.kill()


def test_a_run_that_is_killed_leaves_the_old_site_and_the_next_one_a_new_one(
    tmp_path: Path,
) -> None:
    made = [f"cells/{number}.html" for number in range(40)] + ["index.html"]
    write_site(tmp_path, [(name, b"a") for name in made])
    run_and_kill(tmp_path)
    site = [name for name in names(tmp_path) if not name.startswith(".")]
    assert len(site) == 41
    assert {(tmp_path / name).read_bytes() for name in site} == {b"a"}
    left = next(tmp_path.glob(".new-*"))
    os.utime(left, (time.time() - 7200,) * 2)
    write_site(tmp_path, [(name, b"c") for name in made])
    assert {(tmp_path / name).read_bytes() for name in site} == {b"c"}
    assert not left.exists()


def test_a_list_of_somebody_else_removes_no_file_of_git_and_no_folder(tmp_path: Path) -> None:
    write_site(tmp_path, [("index.html", b"")])
    for name in (".git/HEAD", "mine/thesis.tex", "back\\slash"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("years")
    files = [".", ".git/HEAD", "mine", "back\\slash", "index.html"]
    (tmp_path / LIST).write_text(json.dumps({"schema": "binary-checks/hud/1", "files": files}))
    write_site(tmp_path, [("index.html", b"new")])
    assert names(tmp_path) == sorted(
        [LIST, ".git/HEAD", "mine/thesis.tex", "back\\slash", "index.html"]
    )


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege there")
def test_a_folder_of_ours_that_became_a_link_is_not_written_through(tmp_path: Path) -> None:
    out, home = tmp_path / "out", tmp_path / "home"
    home.mkdir()
    write_site(out, [("cells/a.html", b"a"), ("index.html", b"")])
    (out / "cells/a.html").unlink()
    (out / "cells").rmdir()
    (out / "cells").symlink_to(home)
    for name in ("cells/a.html", "cells/new.html"):
        with pytest.raises(ProfileError, match="would be written through a link"):
            write_site(out, [(name, b"b"), ("index.html", b"")])
    assert names(home) == []
