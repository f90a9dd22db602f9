"""The assemblies of a manifest are read from the resource that Windows uses, and no other."""

from __future__ import annotations

import struct

import pytest

from binary_checks.model import PeFile
from binary_checks.objects import read_objects
from fixtures.samples import read_pe_sample
from tests.objects.byte_sources import Bytes
from tests.objects.pe_sections import address_of_next, append_section

NEEDS = (
    '<dependency><dependentAssembly><assemblyIdentity name="{}"/></dependentAssembly></dependency>'
)
OLD = NEEDS.format("Microsoft.VC90.CRT")


def read(manifest: str, *, kind: int = 24, number: int = 2, length: int | None = None) -> PeFile:
    """Read a DLL whose only resource, of that type and number, is the manifest."""
    image = read_pe_sample("plain.dll")
    (start,) = struct.unpack_from("<I", image, 60)
    (base,) = struct.unpack_from("<Q", image, start + 24 + 24)
    address = address_of_next(image) - base
    text = manifest.encode()
    levels = [(kind, 24 | 1 << 31), (number, 48 | 1 << 31), (1033, 72)]
    tables = b"".join(struct.pack("<12xHHII", 0, 1, *entry) for entry in levels)
    data = struct.pack("<IIII", address + 88, len(text) if length is None else length, 0, 0)
    whole = bytearray(append_section(image, ".rsrc", tables + data + text))
    struct.pack_into("<II", whole, start + 24 + 112 + 16, address, 88 + len(text))
    (found,) = read_objects("demo/a.pyd", Bytes(bytes(whole)))
    assert isinstance(found, PeFile), found
    return found


@pytest.mark.parametrize(
    ("manifest", "assemblies"),
    [
        (OLD, ("Microsoft.VC90.CRT",)),
        (OLD.replace("<", "<asmv1:").replace("<asmv1:/", "</asmv1:"), ("Microsoft.VC90.CRT",)),
        (f"<assemblyIdentity name='demo'/>{OLD}{OLD}", ("Microsoft.VC90.CRT",)),
        (OLD + NEEDS.format("Other"), ("Microsoft.VC90.CRT", "Other")),
        (OLD.replace("<dependency>", '<dependency optional="yes">'), ()),
        (f"<!-- {OLD} -->", ()),
        ("<assemblyIdentity name='demo'/>", ()),
        ("", ()),
    ],
)
def test_a_manifest_names_the_assemblies_that_a_dll_needs(
    manifest: str, assemblies: tuple[str, ...]
) -> None:
    assert read(f"<assembly>{manifest}</assembly>").assemblies == assemblies


@pytest.mark.parametrize("place", [{"number": 1}, {"kind": 16}])
def test_a_resource_that_windows_does_not_use_for_a_dll_asks_for_nothing(
    place: dict[str, int],
) -> None:
    assert read(OLD, **place).assemblies == ()


def test_a_manifest_outside_of_the_file_is_unknown() -> None:
    assert read(OLD, length=1 << 15).assemblies is None
    assert read(OLD, length=1 << 20).assemblies is None


def test_a_dll_without_resources_asks_for_nothing() -> None:
    (found,) = read_objects("demo/a.pyd", Bytes(read_pe_sample("plain.dll")))
    assert isinstance(found, PeFile)
    assert found.assemblies == ()
