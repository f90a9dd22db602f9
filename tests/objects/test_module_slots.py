"""What the slots in the data of an extension module say of the GIL."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from binary_checks.model import ObjectFile
from binary_checks.objects import read_objects
from fixtures.samples import read_pe_sample
from tests.objects.byte_sources import Bytes
from tests.objects.pe_sections import address_of_next, append_section

FREE = "demo/a.cpython-314t-x86_64-linux-gnu.so"
FREE_DLL = "demo/a.cp314t-win_amd64.pyd"

# The structures of CPython 3.14t, which the machine of the test need not have.
SOURCE = """
#include <stdint.h>
typedef struct {
    uintptr_t tid; uint16_t flags; uint8_t mutex, bits; uint32_t local; intptr_t shared; void *type;
} Object;
typedef struct { int number; void *value; } Slot;
typedef struct { uint16_t number, flags; uint32_t reserved; uint64_t value; } NewSlot;
typedef struct {
    Object head; void *init; intptr_t index; void *copy; const char *name, *doc; intptr_t size;
    void *methods; Slot *slots; void *traverse, *clear, *free;
} Definition;
extern void *PyModuleDef_Init(void *);
static int execute(void *module) { return module == 0; }
static void *buffer(void) { return 0; }
static void *counted(void) { return 0; }
"""
START = """
static Definition definition = {
    {0, 0x200, 0, 0, UINT32_MAX, 0, 0}, 0, 0, 0, "a", "text", 0, 0, slots, 0, 0, 0};
void *PyInit_a(void) { return PyModuleDef_Init(&definition); }
"""


def compile_module(folder: Path, slots: str, *options: str, start: str = START) -> ObjectFile:
    compiler = shutil.which("cc") or pytest.skip("there is no C compiler here")
    source, library = folder / "a.c", folder / "a.so"
    source.write_text(SOURCE + slots + start)
    flags = ["-shared", "-fPIC", "-O1", *options]
    subprocess.run([compiler, *flags, source, "-o", library], check=True, capture_output=True)
    (found,) = read_objects(FREE, Bytes(library.read_bytes()))
    assert isinstance(found, ObjectFile)
    assert found.imports.among(("PyModuleDef_Init",))
    return found


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ("{2, execute}, {4, (void *)1}", True),
        ("{2, execute}, {3, (void *)2}, {4, (void *)1}", True),
        ("{2, execute}, {3, 0}, {4, (void *)1}", True),
        ("{85, execute}, {87, (void *)1}", True),  # compiled for 3.15
        ("{4, (void *)1}", True),
        ("{2, execute}, {4, 0}", False),
        ("{2, execute}, {3, (void *)1}", False),
        ("{1, execute}, {2, execute}", False),
    ],
)
def test_the_slots_of_a_definition_are_read(tmp_path: Path, entries: str, expected: bool) -> None:
    slots = f"static Slot slots[] = {{{entries}, {{0, 0}}}};"
    assert compile_module(tmp_path, slots).gil_not_used is expected


def test_packed_relocations_leave_the_pointers_in_the_data(tmp_path: Path) -> None:
    slots = "static Slot slots[] = {{2, execute}, {4, (void *)1}, {0, 0}};"
    packed = compile_module(tmp_path, slots, "-Wl,-z,pack-relative-relocs")
    assert packed.gil_not_used is True


def test_slots_may_be_in_a_nested_array_of_python_3_15(tmp_path: Path) -> None:
    nested = (
        "static NewSlot inner[] = {{100, 2, 0, 7}, {87, 4, 0, %d}, {0, 0, 0, 0}};"
        "static Slot slots[] = {{92, inner}, {0, 0}};"
    )
    assert compile_module(tmp_path, nested % 1).gil_not_used is True
    assert compile_module(tmp_path, nested % 0).gil_not_used is False


def test_slots_that_code_fills_are_unknown(tmp_path: Path) -> None:
    empty = "static Slot slots[4];"
    filling = START.replace("{ return", "{ slots[0] = (Slot){4, (void *)1}; return")
    assert compile_module(tmp_path, empty, start=filling).gil_not_used is None


def test_slots_of_types_are_no_slots_of_modules(tmp_path: Path) -> None:
    types = "Slot of_type[] = {{52, buffer}, {1, buffer}, {2, counted}, {0, 0}};"
    module = "static Slot slots[] = {{2, execute}, {4, (void *)1}, {0, 0}};"
    assert compile_module(tmp_path, types + module).gil_not_used is True
    assert compile_module(tmp_path, types + "static Slot slots[4];").gil_not_used is None


def test_only_modules_that_a_free_threaded_python_may_import_are_searched(tmp_path: Path) -> None:
    compile_module(tmp_path, "static Slot slots[] = {{4, (void *)1}, {0, 0}};")
    content = Bytes((tmp_path / "a.so").read_bytes())
    names = {
        "a.cpython-314t-x86_64-linux-gnu.so": True,
        "a.so": True,
        "a.abi3t.so": True,
        "a.abi3.so": None,
        "a.cpython-314-x86_64-linux-gnu.so": None,
        "liba.so.1": None,
    }
    for name, expected in names.items():
        (found,) = read_objects(f"demo/{name}", content)
        assert isinstance(found, ObjectFile)
        assert found.gil_not_used is expected, name


@pytest.mark.parametrize(("value", "expected", "behind"), [(1, True, 0), (0, False, 88)])
def test_pointers_of_windows_are_absolute(value: int, expected: bool, behind: int) -> None:
    sample = read_pe_sample("extension.cp313t-win_amd64.pyd")
    sample = sample.replace(b"PyModule_Create2", b"PyModuleDef_Init")
    place = address_of_next(sample)
    slots = struct.pack("<QQQQQQ", 2, 0x180001000, 4, value, 0, 0)
    others = struct.pack("<QQQQ", 4, 1, 0, 0)

    def define(thread: int, address: int) -> bytes:
        head = struct.pack("<QIIQQQQQ", thread, 0x200, 0xFFFFFFFF, 0, 0, 0, 0, 0)
        return head + struct.pack("<QQQQQ", 0, 0, 0, 0, address)

    no_static_object = define(1 << 56, place + len(slots))
    whole = define(0, place)
    data = slots + others + no_static_object + whole + whole[:behind]  # the last one is cut off
    content = append_section(sample, ".slots", data)
    (found,) = read_objects(FREE_DLL, Bytes(content))
    assert isinstance(found, ObjectFile)
    assert found.gil_not_used is expected
