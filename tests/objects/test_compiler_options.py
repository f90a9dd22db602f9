"""GCC's record of -march=native in debug information tells for which CPU an object is compiled."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from binary_checks import objects
from binary_checks.model import ElfFile
from binary_checks.objects import LimitedSource, byte_source
from binary_checks.objects.strings import add_build
from fixtures.build_elf import build_elf
from tests.objects.byte_sources import Bytes

OPTIONS = "-mmmx -msse4.2 -mavx -mavx2 -mno-fma4 -mavx512f -mno-amx-tile"
CACHES = "--param=l1-cache-size=32 --param=l1-cache-line-size=64 --param=l2-cache-size=1024"
NATIVE = f"GNU C17 12.2.0 -march=znver3 {OPTIONS} {CACHES} -mtune=znver3 -g -O3 -fPIC"


def search(content: bytes) -> str:
    (found,) = add_build((ElfFile(path="a.so"),), LimitedSource(Bytes(content)))
    assert isinstance(found, ElfFile)
    return found.native_cpu


@pytest.mark.parametrize(
    ("producer", "cpu"),
    [
        (NATIVE.removeprefix("GNU C17 12.2.0 "), "znver3 with AVX-512"),
        (NATIVE.replace("--param=", "--param "), "znver3 with AVX-512"),  # GCC 10
        (NATIVE.replace("-mavx512f", "-mno-avx512f"), "znver3 with AVX2"),
        (NATIVE.replace(" -mavx512f", "").replace("-mavx2", "-mno-avx2"), "znver3 with AVX"),
        ("GNU C17 12.2.0 -mtune=generic -march=x86-64 -g -O3 -fPIC", ""),
        ("GNU C17 12.2.0 -march=x86-64-v3 -mtune=generic -g", ""),
        # -mtune=native with the usual instructions
        (f"GNU C17 12.2.0 -march=x86-64 {CACHES} -mtune=znver3 -g", ""),
        (f"GNU C17 12.2.0 -march=nehalem -mmmx -msse4.2 -mno-avx {CACHES} -mtune=nehalem", ""),
        ("--param=l1-cache-size=32", ""),
    ],
)
def test_the_record_names_the_cpu_of_a_native_build(producer: str, cpu: str) -> None:
    assert search(producer.encode() + b"\0") == cpu


@pytest.mark.parametrize("size", [1, 7, 300, 8191, 8192, 8193])
def test_the_record_is_found_wherever_a_block_ends(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_source, "BLOCK", size)
    assert search(b"\1" * 9000 + NATIVE.encode() + b"\1" * 9000) == "znver3 with AVX-512"


def test_places_without_a_record_hide_none() -> None:
    assert search(b"l1-cache-size=32\0" * 60 + NATIVE.encode()) == "znver3 with AVX-512"


def test_an_object_without_the_record_is_for_no_cpu() -> None:
    (found,) = objects.read_objects("demo/a.so", Bytes(build_elf()))
    assert isinstance(found, ElfFile)
    assert found.native_cpu == ""


def test_gcc_leaves_the_record(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("no gcc")
    source, library = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text("int f(void) { return 1; }\n")
    command = ["gcc", "-shared", "-fPIC", "-g", str(source), "-o", str(library)]
    cpu = {}
    for option in ("-march=native", "-march=x86-64-v3"):
        done = subprocess.run([*command, option], capture_output=True, check=False)
        if done.returncode:
            pytest.skip(f"this compiler has no {option}")
        (found,) = objects.read_objects("a.so", Bytes(library.read_bytes()))
        assert isinstance(found, ElfFile)
        cpu[option] = found.native_cpu
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    assert bool(cpu["-march=native"]) == (" avx " in flags)
    assert cpu["-march=x86-64-v3"] == ""
