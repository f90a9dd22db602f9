"""What editing tools leave behind that glibc's loader refuses is reported, and nothing else."""

from __future__ import annotations

import pytest

from binary_checks.model import ElfFile, Kind
from binary_checks.objects import read_objects
from fixtures.build_elf import MACHINES, ElfSymbol, build_elf
from fixtures.samples import FOLDER, read_sample
from tests.objects.byte_sources import Bytes
from tests.objects.elf_fields import (
    header,
    identification,
    put,
    segment,
    within,
)

LOAD, DYNAMIC, INTERP, VERNEED = 1, 2, 3, 0x6FFFFFFE

EXTENSION = read_sample("extension.cpython-311-x86_64-linux-gnu.so")  # written by LLD


def _refusals(content: bytes, name: str = "a.so") -> tuple[str, ...]:
    (found,) = read_objects(name, Bytes(content))
    assert isinstance(found, ElfFile), found
    return found.refusals


@pytest.mark.parametrize("path", sorted((FOLDER / "elf").iterdir()), ids=lambda path: path.name)
def test_what_compilers_write_is_not_refused(path: object) -> None:
    assert _refusals(read_sample(path.name)) == ()


@pytest.mark.parametrize(
    "machine", [name for name, each in MACHINES.items() if each.code not in {190, 224, 247}]
)
@pytest.mark.parametrize("gnu_hash", [True, False])
def test_no_architecture_is_refused(machine: str, gnu_hash: bool) -> None:
    imports = (ElfSymbol("memcpy", "GLIBC_2.17", "libc.so.6"),)
    exports = tuple(ElfSymbol(f"function{number}", "DEMO_1") for number in range(20))
    content = build_elf(
        machine=machine, imports=imports, exports=exports, needed=("libc.so.6",),
        gnu_hash=gnu_hash, sysv_hash=not gnu_hash,
    )  # fmt: skip
    assert _refusals(content) == ()


@pytest.mark.parametrize(
    ("new", "reason"),
    [
        (0x13B8, "which have different offsets in their pages"),
        (0x23B0, "which differ modulo p_align 0x4000: glibc before 2.35 refuses it"),
    ],
)
def test_a_segment_that_strip_moved_after_patchelf(new: int, reason: str) -> None:
    aligned = put(EXTENSION, segment(LOAD, "align", 1), 0x4000 if "p_align" in reason else 0x1000)
    (sentence,) = _refusals(put(aligned, segment(LOAD, "vaddr", 1), new))
    assert sentence.endswith(reason)


def test_versions_of_a_library_that_patchelf_removed() -> None:
    content = build_elf(
        needed=("libc.so.6",), imports=(ElfSymbol("memcpy", "GLIBC_2.14", "libc.so.6"),)
    )
    assert _refusals(content) == ()
    (sentence,) = _refusals(put(content, within(VERNEED, 4, "I"), 0))
    assert sentence.startswith("needs versions of , which is not among its DT_NEEDED")


def test_a_chain_of_versions_that_goes_on_behind_its_count_is_malformed() -> None:
    content = build_elf(
        needed=("libc.so.6",), imports=(ElfSymbol("memcpy", "GLIBC_2.14", "libc.so.6"),)
    )
    (found,) = read_objects("a.so", Bytes(put(content, within(VERNEED, 16 + 12, "I"), 16)))
    assert "a chain of version records does not end at its count" in found.reason


def test_a_program_under_the_name_of_a_library_cannot_be_opened() -> None:
    for kind in ("executable", "pie"):
        (found,) = read_objects("a.so", Bytes(build_elf(kind=kind, interpreter="/lib64/ld.so")))
        assert isinstance(found, ElfFile)
        assert (found.kind, found.opens) == (Kind.EXECUTABLE, False)


@pytest.mark.parametrize("number", [0, 4, 0xFF00])
def test_a_type_that_no_loader_takes(number: int) -> None:
    (found,) = read_objects("a.so", Bytes(put(EXTENSION, header("type"), number)))
    assert isinstance(found, ElfFile)
    assert found.kind is Kind.OTHER


@pytest.mark.parametrize(
    ("number", "kind"),
    [(0, Kind.OTHER), (63, Kind.OTHER), (190, Kind.OTHER), (224, Kind.OTHER), (251, Kind.DEVICE)],
)
def test_a_machine_whose_files_look_otherwise(number: int, kind: Kind) -> None:
    (found,) = read_objects("a.so", Bytes(put(EXTENSION, header("machine"), number)))
    assert isinstance(found, ElfFile)
    assert found.kind is kind


def test_a_shared_object_of_amdgpu_has_an_os_abi_of_amd() -> None:
    shared = put(EXTENSION, header("machine"), 224)
    for number, kind in enumerate((Kind.OTHER, *[Kind.DEVICE] * 3, Kind.OTHER), start=63):
        (found,) = read_objects("a.so", Bytes(put(shared, identification(7), number)))
        assert isinstance(found, ElfFile)
        assert found.kind is kind


def test_an_interpreter_without_a_dynamic_segment_is_malformed() -> None:
    (found,) = read_objects("a.so", Bytes(put(EXTENSION, segment(DYNAMIC, "type"), INTERP)))
    assert "without a dynamic segment" in found.reason
