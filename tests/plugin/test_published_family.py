"""The family ``published`` in a run: before any download, and alone without one."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.package_index import Conduct, PackageIndex
from tests.plugin.conftest import NAME, TRY_AGAIN, Run, healthy

FOR = ("--binary-for", "cp311-manylinux_2_17_x86_64")
LIBRARY = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def large(folder: Path, **changes: object) -> Path:
    noise = Random(1).randbytes(1 << 20)
    members = {"demo/__init__.py": b"", LIBRARY: build_elf(), "demo/noise.bin": noise}
    return build_wheel(folder, members=members, compression="stored", **changes)  # type: ignore[arg-type]


def entries(package: str) -> dict[str, dict[str, object]]:
    found = json.loads(Path("r.json").read_text())["packages"]
    return {e["check"]: e for each in found if each["node"] == package for e in each["entries"]}


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
    (package,) = json.loads(Path("r.json").read_text())["packages"]
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
