"""The readers say what other readers say, over published wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from fixtures.oracles.compare_readers import compare_all
from fixtures.samples.read_pe_facts import TOOL
from tests.oracles.downloads import download

pytestmark = [pytest.mark.slow, pytest.mark.network]
WHEELS = ["numpy==2.4.6", "cryptography==50.0.2", "lxml==6.1.3", "pyarrow==26.0.1"]
LINUX = tuple(f"manylinux_2_{minor}_x86_64" for minor in (34, 28, 27, 17, 5))
MACOS, WINDOWS = ("macosx_14_0_arm64",), ("win_amd64",)
STABLE_ABI = {
    LINUX: ["cryptography==50.0.2", "libsass==0.23.0", "igraph==1.0.0", "pynacl==1.6.2"],
    MACOS: ["bcrypt==5.0.0", "igraph==1.0.0", "pynacl==1.6.2"],
    WINDOWS: ["cryptography==50.0.2", "igraph==1.0.0", "pynacl==1.6.2", "psutil==7.2.2"],
}


def llvm_version() -> int:
    if not shutil.which(TOOL):
        return 0
    printed = subprocess.run([TOOL, "--version"], capture_output=True, text=True, check=True)
    return int(printed.stdout.partition("version ")[2].partition(".")[0] or 0)


needs_llvm = pytest.mark.skipif(
    llvm_version() < 19, reason="no LLVM 19 in the folder that LLVM_BIN names, nor in PATH"
)


READERS = [
    pytest.param(
        *(("readelf", "pyelftools", "LIEF"), LINUX),
        marks=pytest.mark.skipif(not shutil.which("readelf"), reason="no readelf on this host"),
        id="elf",
    ),
    pytest.param(
        *(("llvm-objdump", "macholib", "LIEF"), MACOS),
        marks=needs_llvm,
        id="macho",
    ),
    pytest.param(
        *(("llvm-readobj", "pefile", "LIEF"), WINDOWS),
        marks=needs_llvm,
        id="pe",
    ),
]


@pytest.mark.parametrize(("oracles", "platforms"), READERS)
def test_no_fact_of_a_published_wheel_differs(
    oracles: tuple[str, ...],
    platforms: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wheels = download(tmp_path, platforms, WHEELS)
    counts: Counter[str] = Counter()
    differences = list(compare_all(wheels, counts))
    with capsys.disabled():
        said = ", ".join(f"{number} {noun}" for noun, number in sorted(counts.items()))
        print(f"\n{len(wheels)} wheels, {platforms[0]}: {said}")  # noqa: T201 - the figures
    assert differences == []
    assert len(wheels) == len(WHEELS)
    assert counts["exported symbols"] > len(wheels)
    assert all(counts[f"facts compared with {oracle}"] for oracle in oracles)


@pytest.mark.skipif(sys.platform != "linux", reason="limits abi3audit's memory as Linux does")
@pytest.mark.parametrize("platforms", STABLE_ABI, ids=["linux", "macos", "windows"])
def test_abi3audit_objects_to_nothing_that_is_not_told_or_proven(
    platforms: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("abi3audit")
    from fixtures.oracles import compare_abi3

    wheels = download(tmp_path, platforms, STABLE_ABI[platforms])
    status = compare_abi3.main([str(wheel) for wheel in wheels])
    said = capsys.readouterr().out
    with capsys.disabled():
        print(f"\nabi3audit: {said}")  # noqa: T201 - the figures asked for
    assert len(wheels) == len(STABLE_ABI[platforms])
    assert all("-abi3-" in wheel.name for wheel in wheels)
    assert said.endswith(f"{len(wheels)} wheels, 0 differences\n")
    assert status == 0
