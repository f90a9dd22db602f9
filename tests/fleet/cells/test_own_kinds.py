"""Cells of a kind that a profile adds: from the matrix to the result, and through CI's stages."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest

from binary_checks.command import main
from binary_checks.errors import ProfileError
from binary_checks.fleet.cells import read_cells
from binary_checks.fleet.night import Attempt
from binary_checks.fleet.store import open_store, result_prefix
from binary_checks.fleet.stored_nights import read_attempt, require_plan
from binary_checks.model import CellState
from fixtures.build_elf import build_elf
from fixtures.slow import slow

TOY_KIND = Path(__file__).parents[2] / "extensions" / "toy_kind.py"
NIGHT = "2026-11-20"
CELLS = """
[[cells]]
project = "bear"
kind = "toy"
system = "linux-x86_64"
variant = ["small", "large"]
package = "bear-*.toy"
source = "{source}"

[sources.shop]
folder = "shop/{{variant}}"

[sources.server]
url = "{server}/{{variant}}/bear-2.0.toy"

[[run]]
when = "project=bear"
profile = "toys.toml"

[ci]
systems = ["github", "tox"]
build = ["mkdir -p dist", "cp shop/$CELL_VARIANT/bear-2.0.toy dist/"]
install = ["true"]
[[runners]]
when = "system=linux"
github = "ubuntu-latest"
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with toys, a profile that adds their kind, and no matrix yet."""
    monkeypatch.setenv("BINARY_CHECKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(TOY_KIND, tmp_path / "tools" / "toy.py")
    (tmp_path / "toys.toml").write_text('kinds = ["tools/toy.py"]\n')
    pack(tmp_path / "shop" / "small" / "bear-1.0.toy", "bear 1.0 3")
    pack(tmp_path / "shop" / "small" / "bear-2.0.toy", "bear 2.0 3")
    pack(tmp_path / "shop" / "large" / "bear-2.0.toy", "bear 2.0")  # without an age
    return tmp_path


def pack(path: Path, about: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("TOY", about)
        archive.writestr("lib/libbear.so", build_elf(soname="libbear.so", needed=("libc.so.6",)))


def write_matrix(folder: Path, source: str = "shop") -> Path:
    path = folder / "cells.toml"
    path.write_text(CELLS.format(source=source, server=(folder / "shop").as_uri()))
    return path


def run_night(folder: Path) -> dict[str, Attempt]:
    """Plan and run a night with real processes; return the attempt of each variant."""
    store = (folder / "store").as_uri()
    assert main(["nightly", "run", "cells.toml", "--store", store, "--date", NIGHT, "-j", "1"]) == 1
    opened = open_store(store)
    variants = {each.cell.id: each.cell.variant for each in require_plan(opened, NIGHT).cells}
    names = [each.name for each in opened.names(result_prefix(NIGHT))]
    found = [read_attempt(opened.read(name) or b"", name) for name in names]
    return {variants[each.cell]: each for each in found}


@pytest.mark.parametrize("source", ["shop", *slow("server")])
def test_a_night_judges_them_by_the_kind_that_its_profile_adds(
    shop: Path, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_matrix(shop, source)
    assert main(["cells", "cells.toml"]) == 0
    line = f"bear-toy-linux-x86_64-large-{source}  profile toys.toml\n"
    assert line in capsys.readouterr().out
    found = run_night(shop)
    assert {each: found[each].state for each in found} == {
        "small": CellState.PASSED,
        "large": CellState.FAILED,
    }
    assert "--profile" in found["small"].command
    assert not {"--python", "--static"} & {*found["small"].command}
    small, large = found["small"].result, found["large"].result
    assert small is not None
    assert large is not None
    (package,) = small.packages
    assert (package.file_name, package.version) == ("bear-2.0.toy", "2.0")
    assert "toy-without-age" in {
        each.check for each in large.packages[0].entries if each.outcome.value == "failed"
    }


@pytest.mark.skipif(os.name != "posix", reason="the build is a script for a POSIX shell")
@pytest.mark.parametrize(
    ("variant", "status", "line"),
    [
        ("large", 1, "toy-without-age: bear-2.0.toy: TOY states no age"),
        *slow(("small", 0, "bear-2.0.toy: fit")),
    ],
)
def test_generated_ci_builds_and_tests_them(
    shop: Path, capfd: pytest.CaptureFixture[str], variant: str, status: int, line: str
) -> None:
    write_matrix(shop)
    assert main(["ci", "write", "cells.toml"]) == 0
    assert main(["ci", "check", "cells.toml"]) == 0
    cell = f"bear-toy-linux-x86_64-{variant}-shop"
    assert main(["ci", "stage", "build", cell]) == 0
    assert main(["ci", "stage", "test", cell]) == status
    assert line in capfd.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"toy"\nsys', '"tyo"\nsys', "unknown kind 'tyo'; did you mean 'toy'?"),
        (
            'profile = "toys.toml"',
            "timeout = 5",
            "unknown kind 'toy'",
        ),
        ("toys.toml", "torch", "unknown kind 'toy'"),
        ('source = "shop"', "", "kind is 'toy', so its source must be one of: folder, url"),
    ],
)
def test_a_kind_that_no_profile_adds_is_refused(
    shop: Path, old: str, new: str, message: str
) -> None:
    path = write_matrix(shop)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ProfileError) as caught:
        read_cells(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
