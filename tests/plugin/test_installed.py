"""An installed package is judged by its name, and its objects by facts from elsewhere if given."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.tags import Tag

from binary_checks.places import list_folders
from binary_checks.places.running import identify
from binary_checks.sources.installed import find_installation
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import open_offline
from fixtures.installation import find_site, install_by_hand
from tests.plugin.conftest import (
    EXTENSION,
    IN_A_WORKER,
    Run,
    faulty,
    healthy,
    make_python,
    run_command,
)

FAULT = "installed:demo::absolute-search-path"


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return tmp_path / "env"


@pytest.fixture
def python(prefix: Path) -> list[str]:
    return ["--binary-python", str(make_python(prefix))]


@pytest.fixture
def site(prefix: Path, python: list[str]) -> Path:
    return find_site(prefix)


@pytest.fixture
def wheel(pytester: pytest.Pytester, prefix: Path, python: list[str]) -> Path:
    path = faulty(pytester.path / "dist")
    install_by_hand(path, prefix)
    return path


@pytest.fixture
def facts(pytester: pytest.Pytester, wheel: Path) -> Path:
    return inspect(pytester, wheel)


def inspect(pytester: pytest.Pytester, wheel: Path, *options: str) -> Path:
    result = run_command("inspect", wheel, "--json", *options)
    path = pytester.path / "facts.json"
    path.write_text(result.stdout.str() + "\n")
    return path


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_it_is_collected_and_nothing_else(
    pytester: pytest.Pytester, run: Run, wheel: Path, python: list[str], workers: list[str]
) -> None:
    pytester.makepyfile("def test_own(): raise AssertionError")
    result = run("--binary-installed", "Demo", "-v", *python, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert set(re.findall(r"\S+(?=::)", result.stdout.str())) == {"installed:demo"}
    assert "::missing-library" in result.stdout.str()
    assert "::tags-disagree" not in result.stdout.str()  # a check of wheels
    line = r"absolute-search-path: installed:demo: demo/_native\S+: looks for libraries in /tmp"
    assert re.search(line, result.stdout.str())


def test_a_conftest_that_is_installed_never_runs_beside_a_test(
    pytester: pytest.Pytester, run: Run, prefix: Path, python: list[str]
) -> None:
    mark = pytester.path / "mark"
    code = f"open({str(mark)!r}, 'w').close()\n"
    pytester.makepyfile(test_own="def test_own(): pass")
    members = {"demo/__init__.py": "", "demo/conftest.py": code, "conftest.py": code}
    install_by_hand(healthy(pytester.path, members=members), prefix)
    result = run("--binary-installed", "demo", *python, "test_own.py", "-v")
    assert "installed:demo::unreadable-member PASSED" in result.stdout.str()
    assert "test_own PASSED" in result.stdout.str()
    assert not mark.exists()


def test_beside_it_a_wheel_may_be_named(run: Run, wheel: Path, python: list[str]) -> None:
    result = run("--binary-installed", "demo", wheel, *python, "-k", "absolute-search-path")
    result.assert_outcomes(failed=2)


def test_a_check_of_it_can_be_named(run: Run, wheel: Path, python: list[str]) -> None:
    run(FAULT, *python).assert_outcomes(failed=1)
    result = run("installed:demo::absolute-search-pth", *python)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*did you mean absolute-search-path*")


def test_the_command_takes_it_too(
    pytester: pytest.Pytester, wheel: Path, python: list[str]
) -> None:
    result = run_command("--static", *python, "--binary-installed", "demo")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["installed:demo: unfit *", "absolute-search-path: installed:*"])


def test_what_is_not_installed_is_a_usage_error(run: Run, python: list[str]) -> None:
    result = run("--binary-installed", "none-such", *python)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = (line for line in result.errlines if line)
    assert re.fullmatch(r"ERROR: --binary-installed none-such: not installed for .*", line)


def test_an_editable_install_is_an_unreadable_package(
    run: Run, wheel: Path, site: Path, python: list[str]
) -> None:
    url = site / "demo-1.0.dist-info/direct_url.json"
    url.write_text('{"dir_info": {"editable": true}}')
    result = run("--binary-installed", "demo", *python)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines("unreadable-package: installed:demo: an editable install*")


def test_given_facts_its_objects_are_not_read(
    run: Run, facts: Path, site: Path, python: list[str]
) -> None:
    native = site / EXTENSION
    native.write_bytes(b"\0" * native.stat().st_size)
    given = ("--binary-installed", "demo", *python, "--binary-facts", facts)
    run(*given, "-k", "absolute-search-path").assert_outcomes(failed=1)
    run(*given, "-k", "unreadable-member").assert_outcomes(passed=1)
    native.write_bytes(b"")
    run(*given, "-k", "unreadable-member").assert_outcomes(failed=1)


def test_facts_of_a_wheel_serve_the_wheel(run: Run, wheel: Path, facts: Path) -> None:
    plain = run(wheel).parseoutcomes()
    assert run(wheel, "--binary-facts", facts).parseoutcomes() == plain


def test_facts_of_another_package_are_refused_with_both_names(
    pytester: pytest.Pytester, run: Run, facts: Path, prefix: Path, python: list[str]
) -> None:
    other = healthy(pytester.path / "other")
    install_by_hand(other, prefix)
    for named in ([other], ["--binary-installed", "demo", *python]):
        result = run(*named, "--binary-facts", facts)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = (line for line in result.errlines if line)
        assert len(set(re.findall(r"sha256 [0-9a-f]{64}", line))) >= 2


@pytest.mark.parametrize("text", ["", "{}\n", "\0" * 100])
def test_other_documents_are_a_usage_error(run: Run, wheel: Path, facts: Path, text: str) -> None:
    facts.write_text(text)
    result = run(wheel, "--binary-facts", facts)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = (line for line in result.errlines if line)
    assert line.startswith(f"ERROR: {facts}: ")


def test_without_symbols_checks_that_need_them_did_not_look(
    pytester: pytest.Pytester, run: Run, wheel: Path
) -> None:
    facts = inspect(pytester, wheel, "--no-symbols")
    result = run(wheel, "--binary-facts", facts, "-k", "undefined-symbol", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines("*not inspected: the facts were written without symbols*")


NEEDY = build_elf(needed=("libhelper.so.1",), rpath="$ORIGIN/../helper")
HELPER = build_elf(soname="libhelper.so.1")


@pytest.mark.parametrize("beside", ["helper", ""])
def test_what_is_required_and_lies_beside_it_is_the_layout(
    run: Run, pytester: pytest.Pytester, prefix: Path, python: list[str], beside: str
) -> None:
    members = {"demo/__init__.py": "", EXTENSION: NEEDY}
    requires = ("helper; python_version >= '3'",)
    install_by_hand(healthy(pytester.path, members=members, requires=requires), prefix)
    if beside:
        other = {f"{beside}/libhelper.so.1": HELPER}
        install_by_hand(build_wheel(pytester.path, name="helper", members=other), prefix)
    result = run("--binary-installed", "demo", "-k", "missing-library", "-rs", *python)
    result.assert_outcomes(passed=1 if beside else 0, failed=0 if beside else 1)


def test_a_known_problem_of_the_wheel_is_one_of_its_installed_copy(
    run: Run, wheel: Path, pytester: pytest.Pytester, python: list[str]
) -> None:
    entry = 'check = "absolute-search-path"\nreason = "issue 1"\npackage = "{}"\n'
    for glob, outcome in (("demo-1.0-*manylinux*.whl", "xfailed"), ("demo-2*", "failed")):
        profile = pytester.path / "own.toml"
        profile.write_text("[[known_problems]]\n" + entry.format(glob))
        named = ("--binary-installed", "demo", "--binary-profile", "own.toml", *python)
        result = run(*named, "-k", "absolute-search-path")
        result.assert_outcomes(**{outcome: 1})


@pytest.mark.parametrize(
    ("code", "status", "line"),
    [
        ("x = 1\n", 0, "*not applicable: the package was not installed*"),
        ("1 / 0\n", 1, "*import demo raises ZeroDivisionError*"),
    ],
)
def test_it_runs_where_it_is_installed(
    run: Run, tmp_path: Path, code: str, status: int, line: str
) -> None:
    wheel = healthy(tmp_path, members={"demo/__init__.py": code}, tags=["py3-none-any"])
    with open_offline(wheel) as environment:
        given = ("--binary-python", str(environment.python), "-m", "runtime", "-rs")
        result = run("--binary-installed", "demo", *given, static=False)
    assert result.ret == status
    result.stdout.fnmatch_lines(line)
    assert result.parseoutcomes()["passed"] >= 1


# In static mode an installed package is found and judged, and nothing that is installed runs.


DEBIAN = Path("/usr/lib/python3/dist-packages")


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "mark"


@pytest.fixture
def bugged(tmp_path: Path, mark: Path) -> Path:
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


def test_the_marks_would_show(bugged: Path, mark: Path) -> None:
    subprocess.run([bugged, "-I", "-c", ""], check=True)
    assert list(dict.fromkeys(mark.read_text().split())) == [
        "demo-nspkg.pth",
        "x.pth",
        "sitecustomize.py",
    ]


def test_an_interpreter_for_which_wheels_are_chosen_runs_nothing_that_is_installed(
    bugged: Path, mark: Path
) -> None:
    asked = identify(bugged, timeout=60, site=False)
    assert (asked.version, mark.exists()) == (platform.python_version(), False)
    assert Tag("py3", "none", "any") in asked.ranked_tags


@pytest.mark.parametrize(
    "workers", [[], pytest.param(["-n", "1", "--dist", "load"], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("starter", ["pytest", "binary_checks"])
def test_nothing_installed_runs(
    bugged: Path, mark: Path, workers: list[str], starter: str, run: Run
) -> None:
    named = ("--binary-installed", "demo", "--binary-python", bugged, "--binary-static", *workers)
    done = run(*named, static=False) if starter == "pytest" else run_command(*named)
    assert (done.ret, mark.exists()) == (0, False), done.outlines + done.errlines
    assert {"pytest": " passed", "binary_checks": "1 package: 1 fit"}[starter] in done.stdout.str()


def test_at_run_time_the_search_runs_nothing_where_reading_is_enough(
    bugged: Path, mark: Path, run: Run
) -> None:
    named = ("--binary-installed", "demo", "--binary-python", bugged, "--collect-only", "-q")
    assert run(*named, static=False).ret == pytest.ExitCode.OK
    assert not mark.exists()


def find(interpreter: Path, name: str) -> Path | None:
    folders = list_folders(interpreter, timeout=60, site=False)
    found = find_installation(name, folders.search, folders.prefix)
    return found and found.dist_info


def test_a_folder_that_a_pth_file_names_is_searched(bugged: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    (more / "other-1.0.dist-info").mkdir(parents=True)
    site = find_site(tmp_path / "env")
    (site / "paths.pth").write_text(f"# a comment\n\n{tmp_path / 'gone'}\n{more}\n")
    assert find(bugged, "other") == more / "other-1.0.dist-info"


def test_what_only_code_adds_is_lost_and_said(
    bugged: Path, tmp_path: Path, run: Run, mark: Path
) -> None:
    more = tmp_path / "more"
    (more / "other-1.0.dist-info").mkdir(parents=True)
    (more / "other-1.0.dist-info" / "RECORD").write_text("")
    site = find_site(tmp_path / "env")
    for name in ("demo-nspkg.pth", "x.pth", "sitecustomize.py"):
        (site / name).unlink()
    (site / "finder.pth").write_text(f"import sys; sys.path.append({str(more)!r})\n")
    named = ("--binary-installed", "other", "--binary-python", bugged, "--collect-only")
    result = run(*named)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = f"not installed for {bugged}, unless code in finder.pth adds its folder; static"
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
@pytest.mark.parametrize("interpreter", find_pyenv(), ids=lambda path: path.parts[-3])
def test_pyenvs_own_packages_are_found(interpreter: Path) -> None:
    if tuple(map(int, interpreter.parts[-3].split(".")[:2])) < (3, 8):
        pytest.skip("older than our probes")
    about = find(interpreter, "pip")
    assert about is not None
    assert about.is_relative_to(interpreter.parents[1])
