"""A conda package is collected, judged statically and reported as any other package is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.build_conda import OMIT, TarMember, build_conda
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.conda.channel import host_subdir
from tests.plugin.conftest import IN_A_WORKER, TRY_AGAIN, Run, run_command, start_command

pytest.importorskip("zstandard", reason="no zstandard, which reads .conda before Python 3.14")

SITE = "lib/python3.11/site-packages"
EXTENSION = f"{SITE}/demo/_native.cpython-311-x86_64-linux-gnu.so"
STEM = "demo-1.0-py311h0123abc_0"
OWN = "libdemo.so.1"


def extension(*needed: str, runpath: str = "$ORIGIN/../../..:$ORIGIN") -> bytes:
    init = (ElfSymbol("PyInit__native"),)
    return build_elf(exports=init, needed=(*needed, "libc.so.6"), runpath=runpath)


def package(folder: Path, *, without: str = "", **changes: Any) -> Path:
    """A package whose extension needs a library of its own, and one of libstdcxx."""
    members: dict[str, Any] = {
        f"{SITE}/demo/__init__.py": "",
        EXTENSION: extension(OWN, "libstdc++.so.6"),
        f"lib/{OWN}.2": build_elf(soname=OWN, needed=("libc.so.6",)),
        f"lib/{OWN}": TarMember(kind=b"2", target=f"{OWN}.2"),
    }
    members = {path: part for path, part in members.items() if not without or without not in path}
    usual = {
        "members": members,
        "depends": ["__glibc >=2.17,<3.0.a0", "libstdcxx >=13", "python >=3.11,<3.12.0a0"],
    }
    return build_conda(folder, **{**usual, **changes})


def lines(result: pytest.RunResult, check: str) -> list[str]:
    return [line for line in result.outlines if line.startswith(f"{check}: ")]


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_a_healthy_package_of_either_format_is_fit(
    pytester: pytest.Pytester, run: Run, workers: tuple[str, ...]
) -> None:
    names = [package(pytester.path, suffix=suffix).name for suffix in (".conda", ".tar.bz2")]
    result = run(*names, "-rp", *workers)
    assert result.ret == pytest.ExitCode.OK
    for check in ("missing-library", "undefined-symbol", "executable-stack", "unreadable-member"):
        result.stdout.fnmatch_lines_random([f"PASSED {name}::{check}" for name in names])


def test_a_package_that_lost_its_own_library_is_red(pytester: pytest.Pytester, run: Run) -> None:
    path = package(pytester.path, without=OWN)
    result = run(path.name)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (line,) = lines(result, "missing-library")
    assert f"needs {OWN}, which neither the package nor linux-64 with __glibc >=2.17" in line


def test_a_library_that_only_lost_its_link_is_not_found(
    pytester: pytest.Pytester, run: Run
) -> None:
    path = package(pytester.path, members={EXTENSION: extension("libx.so.1"), "lib/libx.so": b"x"})
    assert run(path.name).ret == pytest.ExitCode.TESTS_FAILED


def test_a_library_of_a_package_that_it_does_not_depend_on_is_missing(
    pytester: pytest.Pytester, run: Run
) -> None:
    path = package(pytester.path, depends=["__glibc >=2.17", "python >=3.11,<3.12.0a0"])
    (line,) = lines(run(path.name), "missing-library")
    assert "needs libstdc++.so.6" in line


def test_a_symbol_that_is_newer_than_the_glibc_that_it_asks_for_is_red(
    pytester: pytest.Pytester, run: Run
) -> None:
    needs = (ElfSymbol("memcpy", version="GLIBC_2.38", library="libc.so.6"),)
    native = build_elf(exports=(ElfSymbol("PyInit__native"),), imports=needs, needed=("libc.so.6",))
    path = package(pytester.path, members={EXTENSION: native})
    result = run(path.name)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "GLIBC_2.38" in result.stdout.str()


DAMAGED: dict[str, tuple[dict[str, Any], str]] = {
    "cut": ({"truncate": -30}, "unreadable-package: {name}: truncated: *"),
    "cut-inside": (
        {"suffix": ".tar.bz2", "truncate": 600},
        "unreadable-package: {name}: truncated: its compressed data end too early",
    ),
    "escaping": (
        {"extra_members": [TarMember("../../etc/cron.d/x", b"x")]},
        "escaping-member-name: {name}: ../../etc/cron.d/x: its name contains ..",
    ),
    "linking-out": (
        {"extra_members": [TarMember("lib/x", kind=b"2", target="/etc/passwd")]},
        "unreadable-member: {name}: lib/x: it links to /etc/passwd, outside of the package",
    ),
    "changed": (
        {"path_changes": {EXTENSION: {"sha256": "0" * 64}}},
        "unreadable-member: {name}: *_native*: its SHA-256 is *, but info/paths.json states 0000*",
    ),
    "lost": (
        {"path_changes": {"lib/gone.so": {"sha256": "0" * 64}}},
        "unreadable-member: {name}: lib/gone.so: info/paths.json lists it, but *",
    ),
    "no-index": (
        {"index": OMIT},
        "unreadable-package: {name}: not a conda package: it has no info/index.json",
    ),
}


def test_damaged_packages_are_one_line_each(pytester: pytest.Pytester, run: Run) -> None:
    paths = {
        kind: package(pytester.path, name=kind, **changes) for kind, (changes, _) in DAMAGED.items()
    }
    result = run(*(path.name for path in paths.values()))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    for kind, (_, line) in DAMAGED.items():
        result.stdout.fnmatch_lines([line.format(name=paths[kind].name)])
    assert "Traceback" not in result.stdout.str()


def test_without_a_channel_what_runs_packages_says_what_to_do(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
    path = package(pytester.path)
    result = run(
        path.name, "-rs", "-k", "import-fails", "--binary-require", "runtime", static=False
    )
    result.stdout.fnmatch_lines(["*name a channel with --binary-channel, give packages with *"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_run_that_lacked_a_channel_is_no_pass_unless_none_was_asked_for(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
    path = build_conda(pytester.path, name="unrun", subdir=host_subdir(), depends=["nowhere"])
    result = run(path.name, "--binary-report", "json:result.json", static=False)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (found,) = json.loads(Path("result.json").read_text(encoding="utf-8"))["packages"]
    assert found["verdict"] == "not judged"
    assert "name a channel with --binary-channel" in found["unrun"]
    result.stdout.fnmatch_lines([f"{path.name}: not judged: *name a channel with *"])
    assert run(path.name).ret == pytest.ExitCode.OK
    assert run(path.name, "-m", "archive", static=False).ret == pytest.ExitCode.OK


def test_a_channel_that_does_not_answer_is_tried_again(pytester: pytest.Pytester, run: Run) -> None:
    pytest.importorskip("rattler", reason="no py-rattler, which solves and links")
    path = build_conda(pytester.path, name="unrun", subdir=host_subdir(), depends=["nowhere"])
    closed = ("--binary-channel", "http://127.0.0.1:9/channel", "-k", "installation-fails")
    result = run(path.name, *closed, "--binary-report", "json:result.json", static=False)
    assert result.ret == TRY_AGAIN
    (found,) = json.loads(Path("result.json").read_text(encoding="utf-8"))["packages"]
    assert found["verdict"] == "error"


@pytest.mark.slow
def test_without_zstandard_nothing_passes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(pytester.path)
    hidden = pytester.mkdir("hidden")
    for name in ("zstandard", "compression"):
        (hidden / f"{name}.py").write_text(f"raise ImportError({name!r})", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(hidden))
    result = pytester.runpytest_subprocess("--binary-static", f"{STEM}.conda")
    assert result.ret not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    assert "passed" not in result.parseoutcomes()
    result.stdout.fnmatch_lines(["*Zstandard cannot be read here: install binary-checks[[]conda]*"])
    inspected = start_command(pytester.path, "inspect", f"{STEM}.conda")
    (line,) = inspected.stderr.splitlines()
    assert line.startswith(f"binary-checks: {STEM}.conda: Zstandard cannot be read here: ")


@pytest.mark.parametrize("suffix", [".conda", ".tar.bz2"])
def test_facts_that_were_stated_of_one_stand_in_for_reading_it(
    pytester: pytest.Pytester, run: Run, suffix: Any
) -> None:
    name = package(pytester.path, suffix=suffix, without=OWN).name
    read = run(name, "-q", "-k", "missing-library")
    stated = run_command("inspect", name, "--json").stdout.str()
    Path("facts.json").write_text(f"{stated}\n", encoding="ascii")
    trusted = run(name, "-q", "-k", "missing-library", "--binary-facts", "facts.json")
    assert trusted.ret == read.ret == pytest.ExitCode.TESTS_FAILED
    assert lines(trusted, "missing-library") == lines(read, "missing-library") != []
