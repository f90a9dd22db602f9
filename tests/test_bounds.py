"""A bound of a reader is never a pass: a fault beyond it is found, not inspected, or too large."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import binary_checks
from binary_checks import examine, judge
from binary_checks.examination.judging import Verdict
from binary_checks.model import Outcome
from fixtures.bounds import BOUNDS, OTHERS
from fixtures.build_conda import build_conda
from fixtures.build_cpp_archive import TARGETS, build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_fatbin import archive, compressed_entry, container
from fixtures.build_wheel import build_wheel
from fixtures.samples import read_macho_sample, read_pe_sample, read_sample
from tests.objects.pe_signatures import attach, sign

NAME = re.compile(r"_?(?:MOST|LONGEST|LARGEST|MAXIMUM|DEEPEST)(?:_[A-Z_]+)?")
ROOMS = ("trees", "packages", "objects", "python_code", "loaders", "gather", "knowledge", "checks")
Make = Callable[[Path], Path]


class Beyond(NamedTuple):
    """A faulty package, the check that finds the fault, and values that put it beyond a bound."""

    check: str
    make: Make
    values: dict[str, Any]


def of_wheel(**members: bytes | str) -> Make:
    return lambda folder: build_wheel(folder, members={"demo/__init__.py": "", **members})


def of_system(tag: str, path: str, content: bytes) -> Make:
    members = {"demo/__init__.py": "", path: content}
    return lambda folder: build_wheel(folder, tags=(f"cp311-cp311-{tag}",), members=members)


def of_archive(**members: str) -> Make:
    library = {"lib/libother.so": read_sample("plain.so")}
    return lambda folder: build_cpp_archive(folder, {**library, **members})


def of_libtorch(members: dict[str, bytes]) -> Make:
    name = "libtorch-cxx11-abi-shared-with-deps-1.0+cpu.zip"
    given = {"lib/libother.so": read_sample("plain.so"), **members}
    return lambda folder: build_cpp_archive(folder, given, name=name, top="libtorch")


def static_library(names: bytes) -> bytes:
    """Return a static library, in whose index are these names."""
    content = archive(index=names, one_o=build_elf(kind="relocatable"))
    return content.replace(b"index/", b"/     ", 1)


def of_conda(suffix: Any) -> Make:
    long = f"share/{'x' * 120}.txt"  # longer than a name in a member's own header
    members = {"lib/libdemo.so": read_sample("rpath_absolute.so"), long: "x"}
    return lambda folder: build_conda(folder, suffix=suffix, members=members)


START_FILE = of_wheel(**{"demo.pth": "import absent # e\u0301\n"})
MAC = "macosx_11_0_x86_64"
EXTENSION = "demo/_native.cpython-311-darwin.so"
MAC_PATH = read_macho_sample("extension.so").replace(
    b"@loader_path/../demo.dylibs", b"/tmp/build/lib".ljust(27, b"\0")
)
STALE = sign(bytes(32), "sha256")  # of another file
CORRUPT = build_elf(sections={".nv_fatbin": container(compressed_entry(b"broken", 100, 0x2000))})

FAULTS = (
    Beyond(
        "failing-path-file",
        START_FILE,
        {
            "gather.member_contents.LARGEST": 10,
            "python_code.parsing.LONGEST": 5,
            "python_code.parsing._MOST_TOKENS": 0,
            "python_code.parsing._MOST_CROSSINGS": -1,
            "python_code.parsing._MOST_FIELDS": -1,
            "python_code.parsing._MOST_MARKS": 0,
            "trees.members.MAXIMUM_ENTRIES": 1,
            "trees.members.MAXIMUM_SIZE": 10,
            "trees.zip.members._MAXIMUM_RATIO": 0,
            "trees.zip.directory._MAXIMUM_DIRECTORY": 10,
            "packages.distributions.LONGEST": 10,
        },
    ),
    Beyond(
        "absolute-search-path",
        of_system(MAC, EXTENSION, MAC_PATH),
        {"objects.macho.header._MOST_BYTES": 100},
    ),
    Beyond(
        "broken-code-signature",
        of_system("macosx_11_0_arm64", EXTENSION, read_macho_sample("stale_signature_arm64.dylib")),
        {"objects.macho.signature._MOST_BLOBS": 0},
    ),
    Beyond(
        "missing-init-function",
        of_system(MAC, EXTENSION, read_macho_sample("extension.so")),
        {"objects.macho.symbols._MOST_OF_NAMES": 1},
    ),
    Beyond(
        "broken-signature",
        of_system("win_amd64", "demo/signed.dll", attach(read_pe_sample("pdb.dll"), STALE)),
        {
            "objects.pe.header._LONGEST_NAME": 1,
            "objects.pe.header._LONGEST_RECORD": 26,
            "objects.pe.symbols._MOST": 0,
        },
    ),
    Beyond(
        "corrupt-device-code",
        of_system("manylinux_2_17_x86_64", "demo/libdemo.so", CORRUPT),
        {"objects.device.entries.LARGEST": 0},
    ),
    Beyond(
        "python-is-excluded",
        lambda folder: build_wheel(
            folder,
            metadata="Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Python: >=3.12\n",
        ),
        {"knowledge.tags.LONGEST_SPECIFIER": 0},
    ),
    Beyond(
        "missing-target-file",
        of_archive(**{"share/cmake/Demo/DemoTargets.cmake": TARGETS + "#" * (5 << 20)}),
        {"packages.cpp_archive._LONGEST_CODE": 4 << 20, "packages.cpp_archive._MOST_KEPT": 10},
    ),
    Beyond(
        "build-contradicts-name",
        of_libtorch({"build-version": b"9.9\n"}),
        {"packages.cpp_archive._LONGEST_TEXT": 1},
    ),
    Beyond(
        "cxx-abi-misreported",
        of_libtorch({"lib/libdemo.a": static_library(b"_ZN1a1bESs\0" * 20)}),
        {"objects.archives._LONGEST_INDEX": 0},
    ),
    Beyond(
        "absolute-path-in-build-file",
        of_archive(**{"lib/pkgconfig/demo.pc": "prefix=/opt/demo\nLibs: -L${prefix}/lib\n"}),
        {"packages.cpp_archive_files._MOST_EXPANDED": 1},
    ),
    Beyond(
        "absolute-search-path",
        of_conda(".tar.bz2"),
        {
            "packages.conda._LONGEST": 10,
            "trees.decompression._RATIO": 0,
            "trees.tar._LONGEST_TEXT": 10,
            "trees.tar._MAXIMUM_NAMES": 1,
            "trees.tar._MOST_HEADERS": 0,
        },
    ),
)


def judge_all(path: Path) -> dict[str, Verdict]:
    with examine(path) as examination:
        return {verdict.check: verdict for verdict in judge(examination)}


@pytest.mark.parametrize(
    ("bound", "value", "fault"),
    [
        pytest.param(bound, value, fault, id=bound)
        for fault in FAULTS
        for bound, value in fault.values.items()
    ],
)
def test_a_fault_beyond_a_bound_does_not_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int, fault: Beyond
) -> None:
    path = fault.make(tmp_path)
    module, _, name = f"binary_checks.{bound}".rpartition(".")
    usual = getattr(import_module(module), name)
    lowered = dict.fromkeys(usual, value) if isinstance(usual, dict) else value
    monkeypatch.setattr(f"{module}.{name}", lowered)
    found = judge_all(path)
    decided = {verdict.outcome for verdict in found.values()}
    verdict = found.get(fault.check)
    seen = verdict is not None and (*verdict.problems, *verdict.warnings, *verdict.not_inspected)
    assert seen or Outcome.FAILED in decided


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.check)
def test_each_fault_is_found_within_the_bounds(tmp_path: Path, fault: Beyond) -> None:
    verdict = judge_all(fault.make(tmp_path))[fault.check]
    assert verdict.problems or verdict.warnings or "bytes" in verdict.reason


def test_the_table_has_every_bound() -> None:
    """A constant with such a name is in one of the tables; those of the first were tried above."""
    found = {name for room in ROOMS for name in list_constants(room)}
    tables = {f"{each.module}.{each.name}" for each in BOUNDS}
    assert found - tables - OTHERS == set()
    assert OTHERS - found == set()
    assert tables & OTHERS == set()
    # the value of the others comes from elsewhere: what lies beyond is itself the fault, or no file
    protecting = {
        f"{each.module}.{each.name}"
        for each in BOUNDS
        if each.protects.startswith(("memory", "time")) and each.module.split(".")[0] in ROOMS
    }
    tried = {name for fault in FAULTS for name in fault.values}
    assert protecting - tried == {"packages.conda_record._LONGEST"}  # of an installed package


def list_constants(room: str) -> Iterator[str]:
    root = Path(binary_checks.__file__).parent
    for path in (root / room).rglob("*.py"):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            names = (each.id for each in targets if isinstance(each, ast.Name))
            yield from (f"{module}.{name}" for name in names if NAME.fullmatch(name))
