"""In static mode an installed package is found and judged, and nothing that is installed runs."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.tags import Tag

from binary_checks.places import list_folders
from binary_checks.places.running import identify
from binary_checks.sources.installed import find_installation
from fixtures.installation import find_site, install_by_hand
from tests.plugin.conftest import Run, healthy, make_python, run_command

DEBIAN = Path("/usr/lib/python3/dist-packages")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def python(tmp_path: Path, mark: Path) -> Path:
    """An interpreter for which a package is installed, and all that runs by itself."""
    prefix = tmp_path / "env"
    made = make_python(prefix)
    site = find_site(prefix)
    install_by_hand(healthy(tmp_path), prefix)
    code = "import pathlib; pathlib.Path({!r}).open('a').write({!r} + ' ')\n"
    for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "x.pth", "demo-nspkg.pth"):
        (site / name).write_text(code.format(str(mark), name))
    (site / "demo" / "conftest.py").write_text(code.format(str(mark), "demo/conftest.py"))
    return made


def test_the_marks_would_show(python: Path, mark: Path) -> None:
    subprocess.run([python, "-I", "-c", ""], check=True)
    assert list(dict.fromkeys(mark.read_text().split())) == [
        "demo-nspkg.pth",
        "x.pth",
        "sitecustomize.py",
    ]


def test_an_interpreter_for_which_wheels_are_chosen_runs_nothing_that_is_installed(
    python: Path, mark: Path
) -> None:
    asked = identify(python, timeout=60, site=False)
    assert (asked.version, mark.exists()) == (platform.python_version(), False)
    assert Tag("py3", "none", "any") in asked.ranked_tags


@pytest.mark.parametrize(
    "workers", [[], pytest.param(["-n", "1", "--dist", "load"], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("starter", ["pytest", "binary_checks"])
def test_nothing_installed_runs(
    python: Path, mark: Path, workers: list[str], starter: str, run: Run
) -> None:
    named = ("--binary-installed", "demo", "--binary-python", python, "--binary-static", *workers)
    done = run(*named, static=False) if starter == "pytest" else run_command(*named)
    assert (done.ret, mark.exists()) == (0, False), done.outlines + done.errlines
    assert {"pytest": " passed", "binary_checks": "1 package: 1 fit"}[starter] in done.stdout.str()


def test_at_run_time_the_search_runs_nothing_where_reading_is_enough(
    python: Path, mark: Path, run: Run
) -> None:
    named = ("--binary-installed", "demo", "--binary-python", python, "--collect-only", "-q")
    assert run(*named, static=False).ret == pytest.ExitCode.OK
    assert not mark.exists()


def find(python: Path, name: str) -> Path | None:
    folders = list_folders(python, timeout=60, site=False)
    found = find_installation(name, folders.search, folders.prefix)
    return found and found.dist_info


def test_a_folder_that_a_pth_file_names_is_searched(python: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    (more / "other-1.0.dist-info").mkdir(parents=True)
    site = find_site(tmp_path / "env")
    (site / "paths.pth").write_text(f"# a comment\n\n{tmp_path / 'gone'}\n{more}\n")
    assert find(python, "other") == more / "other-1.0.dist-info"


def test_what_only_code_adds_is_lost_and_said(
    python: Path, tmp_path: Path, run: Run, mark: Path
) -> None:
    more = tmp_path / "more"
    (more / "other-1.0.dist-info").mkdir(parents=True)
    (more / "other-1.0.dist-info" / "RECORD").write_text("")
    site = find_site(tmp_path / "env")
    for name in ("demo-nspkg.pth", "x.pth", "sitecustomize.py"):
        (site / name).unlink()
    (site / "finder.pth").write_text(f"import sys; sys.path.append({str(more)!r})\n")
    named = ("--binary-installed", "other", "--binary-python", python, "--collect-only")
    result = run(*named)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = f"not installed for {python}, unless code in finder.pth adds its folder; static"
    result.stderr.fnmatch_lines(
        f"ERROR: --binary-installed other: {said} mode does not run this code"
    )
    assert run(*named, static=False).ret != pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("option", [True, False])
def test_the_folders_are_those_that_site_finds(tmp_path: Path, option: bool) -> None:
    """Of a virtual environment with and without the base's packages, and of the base itself."""
    made = make_python(tmp_path / "env", system_site_packages=option)
    for python in (made, Path(sys.base_prefix, *made.relative_to(tmp_path / "env").parts)):
        if python.exists():
            alone = list_folders(python, timeout=60, site=False)
            known = list_folders(python, timeout=60)
            assert alone.prefix == known.prefix
            assert set(known.search) - set(alone.search) == set() or alone.unread


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="no Python of Debian's here")
@pytest.mark.parametrize("environment", [True, False])
def test_debians_own_packages_are_found(tmp_path: Path, environment: bool) -> None:
    about = next(iter(sorted(DEBIAN.glob("*.dist-info"))), None)
    python = Path("/usr/bin/python3")
    if about is None or not python.exists():
        pytest.skip("Debian has no distribution with a dist-info here")
    if environment:
        flags = ("-m", "venv", "--without-pip", "--system-site-packages")
        subprocess.run([python, *flags, tmp_path / "env"], check=True)
        python = tmp_path / "env/bin/python"
    assert find(python, about.name.partition("-")[0]) == about


def find_pyenv() -> list[Path]:
    return sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))[:6]


@pytest.mark.skipif(not find_pyenv(), reason="no pyenv here")
@pytest.mark.parametrize("python", find_pyenv(), ids=lambda path: path.parts[-3])
def test_pyenvs_own_packages_are_found(python: Path) -> None:
    if tuple(map(int, python.parts[-3].split(".")[:2])) < (3, 8):
        pytest.skip("older than our probes")
    about = find(python, "pip")
    assert about is not None
    assert about.is_relative_to(python.parents[1])
