"""The binary-checks command: deaf to its folder, with pytest's exit codes, and the inspector."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from binary_checks.command import main
from binary_checks.documents.facts import restore
from binary_checks.options import Program
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import ZSTD, compressed_entry, container
from fixtures.build_wheel import Entry, build_wheel
from fixtures.samples import read_fatbin_sample
from fixtures.slow import slow
from tests.plugin.conftest import EXTENSION, command, faulty, healthy, start_command
from tests.test_safe_text import assert_harmless


def test_it_is_deaf_to_the_folder(tmp_path: Path) -> None:
    path = healthy(tmp_path)
    (tmp_path / "conftest.py").write_text("raise SystemExit('conftest was read')")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    hostile = {"PYTEST_ADDOPTS": "--no-such-option", "PYTEST_PLUGINS": "no_such_plugin"}
    result = command(tmp_path, "--static", path.name, **hostile)
    assert result.returncode == 0, result.stdout + result.stderr
    assert not (tmp_path / ".pytest_cache").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [["-n2"], ["--dist", "no"], ["-n", "2"], ["--numprocesses=2"]])
def test_options_of_xdist_bring_it(tmp_path: Path, workers: list[str]) -> None:
    packages = [healthy(tmp_path / n) for n in ("one", "two")]
    result = command(tmp_path, "--static", "-v", *workers, *packages)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (" workers [" in result.stdout) == ("no" not in workers), result.stdout


def test_it_goes_straight_to_packages_wherever_they_lie(tmp_path: Path) -> None:
    below = healthy(tmp_path / "here" / "dist" / "new")
    beside = faulty(tmp_path / "there")
    (tmp_path / "here" / "dist" / "test_other.py").write_text("raise SystemExit('it was read')")
    result = command(tmp_path / "here", "--static", "-v", below, beside)
    assert result.returncode == 1, result.stdout + result.stderr
    assert f"dist/new/{below.name}::absolute-search-path PASSED" in result.stdout
    assert f"{beside.name}::absolute-search-path FAILED" in result.stdout
    assert "test_other" not in result.stdout


def test_explain_says_what_a_check_is_about_or_suggests_the_nearest(tmp_path: Path) -> None:
    result = command(tmp_path, "--explain", "absolute-search-path")
    assert result.returncode == 0
    assert "Why:" in result.stdout
    assert "Fix:" in result.stdout
    result = command(tmp_path, "--explain", "absolute-search-paths")
    assert result.returncode == 4
    assert "absolute-search-path" in result.stderr


def test_inspect_prints_the_facts_the_same_in_every_run(tmp_path: Path) -> None:
    asked = ("inspect", faulty(tmp_path).name, "--json")
    result = command(tmp_path, *asked)
    assert start_command(tmp_path, *asked).stdout == result.stdout  # it hashes in another way
    assert "PyInit__native" not in command(tmp_path, *asked, "--no-symbols").stdout
    facts = json.loads(result.stdout)
    assert facts["schema"] == "binary-checks/facts/3"
    assert facts["package"]["name"] == "demo"
    (native,) = facts["object_files"]
    place = f"lib/python3.11/site-packages/{EXTENSION}"
    assert native["path"] == place
    assert native["runpath"] == ["/tmp/build/lib"]
    assert native["exports"] == [{"name": "PyInit__native"}]
    assert facts["linkage"] == [
        {
            "architecture": "x86_64",
            "needed": "libc.so.6",
            "path": place,
            "resolved": "system:libc.so.6",
            "rule": "system",
        }
    ]


def test_inspect_prints_the_facts_of_a_system_whose_loader_is_not_simulated(
    tmp_path: Path,
) -> None:
    members = {"demo/a.so": build_elf()}
    tags = ("cp313-cp313-freebsd_14_2_release_amd64",)
    path = build_wheel(tmp_path, tags=tags, members=members)
    result = command(tmp_path, "inspect", path.name, "--json")
    facts = json.loads(result.stdout)
    (native,) = facts["object_files"]
    assert native["format"] == "ELF"
    assert facts["linkage"] is None
    assert "without linkage: the loader of FreeBSD is not simulated" in result.stderr


def test_inspect_takes_several_packages_and_what_is_wrong_with_one_keeps_none_from_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = healthy(tmp_path / "a"), faulty(tmp_path / "b")
    bad = tmp_path / "bad-1.0-py3-none-any.whl"
    bad.write_bytes(b"no zip")
    assert main(["inspect", str(one), str(bad), "gone.whl", str(other)]) == 4
    out, err = capsys.readouterr()
    first, second = out.split("\n\n")
    assert first.startswith(f"{one.name}: demo 1.0, ")
    assert second.startswith(f"{other.name}: demo 1.0, ")
    assert [line.split(": ")[1] for line in err.splitlines()] == [bad.name, "gone.whl"]
    assert main(["inspect", str(bad)]) == 1
    assert main(["inspect", "--json", "gone.whl", str(one), str(other)]) == 4
    documents = json.loads(capsys.readouterr().out)
    assert [each["package"]["file_name"] for each in documents] == [one.name, other.name]
    assert main(["inspect", "--json", "gone.whl", "lost.whl"]) == 4
    assert json.loads(capsys.readouterr().out) == []
    assert main(["inspect", "--json", str(tmp_path / "*" / "*.whl")]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_names_in_a_package_drive_neither_terminal_nor_build_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "demo/\x1b[31m\n::error::\u202e##vso[task.complete]x.so"
    path = healthy(tmp_path, extra_entries=[Entry(evil, build_elf(needed=("\x1b[2J::error::x",)))])
    assert main(["inspect", str(path)]) == 0
    assert main(["--list", str(path)]) == 0
    out = capsys.readouterr().out
    assert "##" in out
    for line in out.split("\n"):
        assert_harmless(line)


def test_inspect_says_the_lowest_tag_what_is_needed_and_what_is_bundled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(healthy(tmp_path))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  claims        manylinux_2_17_x86_64" in lines
    assert "  lowest tag    manylinux_2_5_x86_64" in lines
    assert "  system        libc.so.6" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: PACKAGE"),
        (["gone.whl"], "gone.whl: no such file"),
        (["PACKAGE", "--with", "gone"], "gone: no such file"),
        (["PACKAGE", "--binary-with", "gone"], "gone: no such file"),
        (["PACKAGE", "--profile", "gone.toml"], "profile gone.toml: No such file"),
    ],
)
def test_inspect_tells_a_wrong_call_from_a_broken_package(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    path = str(healthy(tmp_path))
    assert main(["inspect", *(path if a == "PACKAGE" else a for a in arguments)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_without_a_package_the_folders_own_tests_do_not_run(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("raise SystemExit('it ran')")
    result = command(tmp_path, "--static")
    assert result.returncode == 4
    assert result.stderr.splitlines()[0] == "binary-checks: name a package, for example dist/*.whl"


def _heed_interrupts() -> None:
    """Undo what a background job inherits from its shell: SIGINT is ignored there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGTERM, *slow(signal.SIGINT)])
def test_a_cancelled_run_leaves_nothing_behind(tmp_path: Path, number: int) -> None:
    started = tmp_path / "started"
    text = f"import time\nopen({str(started)!r}, 'w').close()\ntime.sleep(600)\n"
    path = healthy(tmp_path, tags=("py3-none-any",), members={"demo/__init__.py": text})
    private = tmp_path / "private"
    private.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "binary_checks", f"{path}::import-fails", "--sandbox", "off"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(private)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=_heed_interrupts,  # noqa: PLW1509 - no other thread runs here
    ) as process:
        while not started.exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 2
    assert list(private.iterdir()) == []
    named = ": SIGTERM" if number == signal.SIGTERM else ""
    assert f"interrupted{named}" in said.splitlines()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "--json"],
        ["--static"],
        *slow(
            ["inspect"],
            ["--static", "-v"],
            ["--list"],
            ["--explain", "missing-library"],
            ["diff", "--json", "PACKAGE"],
        ),
    ],
)
def test_an_output_that_takes_nothing_is_one_line(tmp_path: Path, arguments: list[str]) -> None:
    path = healthy(tmp_path)
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [
                *(sys.executable, "-m", "binary_checks"),
                *(str(path) if each == "PACKAGE" else each for each in (*arguments, "PACKAGE")),
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 6
    assert result.stderr == (
        "binary-checks: standard output or a temporary file cannot be written: "
        "No space left on device\n"
    )


@pytest.mark.skipif(os.name != "posix", reason="the shell closes them")
@pytest.mark.parametrize("closed", [*slow(">&-", "2>&-"), ">&- 2>&-"])
@pytest.mark.parametrize(("make", "status"), [(healthy, 0), *slow((faulty, 1))])
def test_streams_that_the_caller_closed_change_no_verdict(
    tmp_path: Path, closed: str, make: Callable[[Path], Path], status: int
) -> None:
    words = [sys.executable, "-m", "binary_checks", "--static", str(make(tmp_path))]
    run = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *words], check=False)
    assert run.returncode == status


# The inside of code for GPUs, only if asked.


def inspect(folder: Path, *words: str) -> str:
    fatbin = read_fatbin_sample("toolkit_13.5.fatbin") + read_fatbin_sample("toolkit_11.8.fatbin")
    fatbin += container(compressed_entry(b"\x28\xb5\x2f\xfd cut", 100, ZSTD))
    members = {"demo/libdemo.so": build_elf(sections={".nv_fatbin": fatbin})}
    return inspect_wheel(build_wheel(folder, members=dict(members)), *words)


def inspect_wheel(wheel: Path, *words: str) -> str:
    pytest.importorskip("zstandard")
    pytest.importorskip("lz4.block")
    run = command(wheel.parent, "inspect", *words, wheel)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_the_summary_names_toolkits_drivers_and_ptx(tmp_path: Path) -> None:
    shown = inspect(tmp_path, "--device-details")
    for said in (
        "machine code of CUDA 11.8: 2 cubins for sm_75, sm_80; runs on driver 450.80.02 and later",
        "machine code of CUDA 13.5: 2 cubins for sm_75, sm_90a; runs on driver 580 and later",
        "PTX 7.8: 1 text for sm_80; compiled by driver ",
        "PTX 9.5: 1 text for sm_120f",
        "broken: 1 entry at byte ",
    ):
        assert said in shown


def test_the_document_has_them_in_a_table_of_its_own_and_is_read_back(tmp_path: Path) -> None:
    text = inspect(tmp_path, "--json", "--device-details")
    document = json.loads(text)
    (details,) = document["device_details"]
    assert "device_details" not in json.loads(inspect(tmp_path, "--json"))
    assert [group["toolkit"] for group in details["cubins"]] == ["11.8", "13.5", "11.8", "13.5"]
    assert (details["entries"], details["inspected"]) == (7, 7)
    (tmp_path / "facts.json").write_text(text)
    assert restore(tmp_path / "facts.json").package.name == "demo"


def test_all_code_is_decompressed_for_it_not_a_sample(tmp_path: Path) -> None:
    """20 containers with two cubins and a text of PTX each: a sample has 16 of a kind."""
    fatbin = read_fatbin_sample("toolkit_13.5.fatbin") * 20
    members = {"demo/libdemo.so": build_elf(sections={".nv_fatbin": fatbin})}
    text = inspect_wheel(build_wheel(tmp_path, members=dict(members)), "--json", "--device-details")
    (details,) = json.loads(text)["device_details"]
    assert (details["entries"], details["inspected"]) == (60, 60)


@pytest.mark.slow
def test_packages_are_shared_among_the_workers_that_are_asked_for(tmp_path: Path) -> None:
    packages = [healthy(tmp_path / name) for name in "abcdef"]
    packages.append(faulty(tmp_path / "g"))
    alone = command(tmp_path, "--binary-static", "-v", *packages)
    shared = command(tmp_path, "--binary-static", "-v", "-n2", *packages)
    assert (alone.returncode, shared.returncode) == (1, 1)
    assert " workers [" in shared.stdout
    failed = f"FAILED g/{packages[-1].name}::absolute-search-path"
    assert failed in shared.stdout
    assert failed in alone.stdout
    counted = re.compile(r"(\d+ failed, \d+ passed, \d+ skipped)")
    assert counted.findall(alone.stdout) == counted.findall(shared.stdout) != []


def test_one_report_of_an_item_says_what_three_do_under_pytest(pytester: pytest.Pytester) -> None:
    package = faulty(pytester.path)
    (pytester.path / "profile.toml").write_text(
        '[[known_problems]]\ncheck = "executable-stack"\nreason = "unused"\n'
    )
    own = ["--binary-static", "--binary-profile=profile.toml", "-rA", package.name]
    command(pytester.path, *own, "--junitxml=command.xml")
    pytester.runpytest_inprocess(*own, "--junitxml=pytest.xml")
    name_options = Program.COMMAND.name_options  # pytest's are longer
    cases = [
        {
            (
                case.get("name"),
                *((child.tag, name_options(child.get("message", ""))) for child in case),
            )
            for case in ElementTree.parse(pytester.path / name).iter("testcase")
        }
        for name in ("command.xml", "pytest.xml")
    ]
    assert cases[0] == cases[1]
    tags = {child[0] for case in cases[0] for child in case[1:]}
    assert tags == {"failure", "skipped"}
