"""Published packages are judged like any other: found once, fetched once, with their index."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from binary_checks.command import main
from binary_checks.command.inspect import run_inspect, run_list
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.package_index import Conduct, PackageIndex
from tests.plugin.conftest import NAME, TRY_AGAIN, Run, faulty, healthy

FOR = ("--binary-for", "cp311-manylinux_2_17_x86_64")


def find_result(node: str) -> dict[str, Any]:
    found = json.loads(Path("r.json").read_text())["packages"]
    return dict(next(each for each in found if each["node"] == node))


def test_a_published_package_is_judged_and_named_by_its_index(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    index.offer(faulty(tmp_path / "dist"), "demo", yanked="too old")
    result = run("demo==1.0", *FOR, "--binary-report", "json:r.json")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            f"{NAME}: from {index.simple}; not downloaded: the index states sha256 *; "
            "yanked: too old",
            f"absolute-search-path: {NAME}: demo/_native*",
        ]
    )
    package = find_result("demo==1.0")
    provenance = package["provenance"]
    assert (package["file_name"], provenance["index"]) == (NAME, index.simple)
    assert provenance["sha256_taken"] == provenance["sha256"] == package["sha256"]
    assert (provenance["yanked"], provenance["metadata"]) == ("too old", "ranges")


@pytest.mark.slow
def test_workers_judge_what_the_controller_found(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    address = index.offer(faulty(tmp_path / "dist"), "demo").removeprefix(index.url)
    result = run("demo==1.0", *FOR, "-n", "2", "--dist", "load")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"absolute-search-path: {NAME}: demo/_native*"])
    assert index.asked.count("/simple/demo/") == 1
    gets = [each for each in index.requests if each.path == address]
    assert sum("range" not in each.headers for each in gets) == 1


def test_an_index_that_broke_is_tried_again_later(index: PackageIndex, run: Run) -> None:
    index.conduct["/simple/demo/"] = Conduct(failures=[503] * 9)
    result = run("demo==1.0", *FOR, "--binary-report", "json:r.json")
    assert result.ret == TRY_AGAIN
    said = f"{index.simple}demo/: answers 503"
    package = find_result("demo==1.0")
    assert (package["verdict"], {each["reason"] for each in package["entries"]}) == (
        "error",
        {said},
    )


def test_a_download_that_broke_is_no_fault_of_the_package(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    index.offer(healthy(tmp_path / "dist"), "demo", sha256="0" * 64)
    result = run("demo==1.0", *FOR, "-k", "search-path")
    assert result.ret == TRY_AGAIN
    result.stdout.fnmatch_lines(
        [f"*{NAME}: {index.simple} says sha256 {'0' * 64}, and its server*"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("demo==9", "demo==9: no such project (asked: *)"),
        ("--binary-published=demo", "demo: no such project (asked: *)"),
        ("torch", "file or directory not found: torch"),
        ("foo.whl", "foo.whl: no such file"),
        ("./demo==1", "file or directory not found: ./demo==1"),
    ],
)
def test_what_is_not_there_is_a_mistake_and_a_typo_contacts_nothing(
    index: PackageIndex, run: Run, argument: str, said: str
) -> None:
    result = run(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {said}"])
    assert bool(index.asked) == ("asked" in said)


@pytest.mark.slow
def test_an_option_names_them_in_a_run_of_tests(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    index.offer(healthy(tmp_path / "dist"), "demo")
    result = run("--binary-published", "demo", *FOR, "-v")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["index:demo::absolute-search-path PASSED*"])


@pytest.mark.slow
def test_without_the_extra_it_is_named(
    index: PackageIndex, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(urllib3="raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    result = pytester.runpytest_subprocess("--binary-static", "demo==1.0", *FOR)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    said = "ERROR: indexes and URLs need urllib3: pip install urllib3 (the extra published)"
    result.stderr.fnmatch_lines([said])


def test_they_are_inspected_and_listed_like_files(
    index: PackageIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = index.offer(healthy(tmp_path / "dist"), "demo")
    assert run_inspect(["demo==1.0", *FOR]) == 0
    out = capsys.readouterr().out
    assert f"published     from {index.simple}; sha256 " in out
    assert run_inspect(["--json", address]) == 0
    assert json.loads(capsys.readouterr().out)["package"]["name"] == "demo"
    assert run_list([address]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME}\n")


@pytest.mark.parametrize(
    ("argument", "status", "said"),
    [
        ("demo==9", 4, "demo==9: no such project (asked: {index})"),
        ("torch", 4, "torch: no such file; a requirement is torch==VERSION or index:torch"),
        ("torch=2.9.1", 4, "torch=2.9.1: no such file; a requirement is torch==2.9.1"),
        ("{url}/x.whl?signature=secret", 6, "{url}/x.whl: answers 500"),
    ],
)
def test_what_cannot_be_inspected_is_one_line(
    index: PackageIndex,
    capsys: pytest.CaptureFixture[str],
    argument: str,
    status: int,
    said: str,
) -> None:
    index.conduct["/x.whl"] = Conduct(failures=[500] * 9)
    names = {"url": index.url, "index": index.simple}
    for subcommand in ("inspect", "--list"):
        assert main([subcommand, argument.format(**names)]) == status
        assert capsys.readouterr().err == f"binary-checks: {said.format(**names)}\n"


def test_an_installed_package_is_inspected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_inspect(["installed:pytest", "--json"]) == 0
    package = json.loads(capsys.readouterr().out)["package"]
    assert (package["name"], package["sha256"]) == ("pytest", "")


# The family published: before any download, and alone without one.


LIBRARY = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def large(folder: Path, **changes: object) -> Path:
    noise = Random(1).randbytes(1 << 20)
    members = {"demo/__init__.py": b"", LIBRARY: build_elf(), "demo/noise.bin": noise}
    return build_wheel(folder, members=members, compression="stored", **changes)  # type: ignore[arg-type]


def entries(node: str) -> dict[str, dict[str, Any]]:
    return {each["check"]: each for each in find_result(node)["entries"]}


def test_alone_it_downloads_nothing(index: PackageIndex, run: Run, tmp_path: Path) -> None:
    path = large(tmp_path / "dist")
    address = index.offer(path, "demo", metadata=True).removeprefix(index.url)
    result = run("demo==1.0", *FOR, "-m", "published", "--binary-report", "json:r.json")
    assert result.ret == pytest.ExitCode.OK
    gets = [each.headers for each in index.requests if each.path == address]
    assert gets
    assert all("range" in headers for headers in gets)
    assert index.sent < path.stat().st_size / 2
    outcomes = {name: each["outcome"] for name, each in entries("demo==1.0").items()}
    assert set(outcomes.values()) == {"passed"}
    assert "index-metadata-differs" in outcomes
    package = find_result("demo==1.0")
    known = (package["name"], package["version"], package["size"])
    assert known == ("demo", "1.0", path.stat().st_size)
    assert "sha256" not in package
    assert package["provenance"]["metadata"] == "PEP 658"
    assert "sha256_taken" not in package["provenance"]
    assert not list((tmp_path / "cache").rglob("*.whl"))


@pytest.mark.slow
def test_its_items_come_first(index: PackageIndex, run: Run, tmp_path: Path) -> None:
    index.offer(healthy(tmp_path / "dist"), "demo")
    result = run("demo==1.0", *FOR, "--collect-only", "-q")
    listed = [line.partition("::")[2] for line in result.outlines if "::" in line]
    assert listed[0] == "broken-published-archive"
    assert listed.index("yanked-file") < listed.index("absolute-search-path")


@pytest.mark.slow
def test_the_wrong_file_behind_a_url_is_caught_without_it(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    arm = build_elf(machine="aarch64")
    members = {"other/__init__.py": b"", "other/_x.cpython-311-x86_64-linux-gnu.so": arm}
    index.offer(build_wheel(tmp_path, name="other", members=members, filename=NAME), "demo")
    result = run(f"{index.url}/files/{NAME}", "-m", "published")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(
        [
            f"published-for-another-system: {NAME}: other/_x*: is for aarch64, but the tags *",
            f"published-name-disagrees: {NAME}: *METADATA names 'other', "
            "but the file name has 'demo'",
        ]
    )


def test_a_server_without_ranges_is_never_a_pass(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    address = index.offer(healthy(tmp_path / "dist"), "demo").removeprefix(index.url)
    index.conduct[address] = Conduct(ranges=False)
    report = ("--binary-report", "json:r.json")
    assert run("demo==1.0", *FOR, "-m", "published", *report).ret == pytest.ExitCode.OK
    found = entries("demo==1.0")
    assert found["yanked-file"]["outcome"] == "passed"
    entry = found["published-for-another-system"]
    assert entry["outcome"] == "not inspected"
    assert "before the download: " in str(entry["reason"])
    required = run("demo==1.0", *FOR, "-m", "published", "--binary-require", "published")
    assert required.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.slow
def test_a_file_that_changes_all_the_time_is_refused(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    address = index.offer(large(tmp_path / "dist"), "demo").removeprefix(index.url)
    index.conduct[address] = Conduct(changes=True)
    result = run("demo==1.0", *FOR, "-m", "published", "-k", "published-for-another-system")
    assert result.ret == TRY_AGAIN
    result.stdout.fnmatch_lines([f"*{NAME}: it changed twice while it was read*"])


@pytest.mark.slow
def test_an_expected_set_counts_what_the_index_has(
    index: PackageIndex, run: Run, tmp_path: Path
) -> None:
    index.offer(healthy(tmp_path / "dist"), "demo")
    index.offer(healthy(tmp_path / "dist", tags=["cp312-cp312-win_amd64"]), "demo")
    Path("set.txt").write_text("demo-1.0-cp311-*\ndemo-1.0-*-win_amd64.whl\ndemo-*-macosx*\n")
    result = run("demo==1.0", *FOR, "-m", "release", "--binary-expect-set", "set.txt")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line = "file-missing-from-release: release: no file named or in the index matches *macosx*"
    result.stdout.fnmatch_lines([line])
    assert not any("win_amd64.whl of" in line for line in result.outlines)


@pytest.mark.network
def test_a_real_file_of_half_a_gigabyte_is_judged_by_a_thousandth(run: Run) -> None:
    target = ("--binary-for", "cp312-manylinux_2_28_x86_64")
    report = ("--binary-report", "json:r.json")
    asked = "nvidia-cublas-cu12==12.6.4.1"
    result = run(asked, *target, "-m", "published", *report)
    assert result.ret == pytest.ExitCode.OK
    outcomes = {
        name: each["outcome"] for name, each in entries("nvidia-cublas-cu12==12.6.4.1").items()
    }
    assert outcomes["published-for-another-system"] == "passed"
    assert outcomes["published-record-differs"] == "passed"
