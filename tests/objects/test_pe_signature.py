"""An Authenticode signature is found, and its digest compared with the file's."""

from __future__ import annotations

import hashlib
import struct

import pytest

from binary_checks.model import MalformedObject, PeFile
from binary_checks.objects import read_objects
from fixtures.samples import read_pe_sample
from tests.objects.byte_sources import Bytes

SIGNED_DATA = "2a864886f70d010702"
SPC_INDIRECT_DATA = "2b060104018237020104"
SPC_PE_IMAGE_DATA = "2b06010401823702010f"
ALGORITHMS = {"sha1": "2b0e03021a", "sha256": "608648016503040201", "sha384": "608648016503040202"}


def _der(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    if len(content) < 128:
        return bytes([tag, len(content)]) + content
    return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content


def _oid(value: str) -> bytes:
    return _der(6, bytes.fromhex(value))


def _sign(digest: bytes, algorithm: str, kind: str = SPC_INDIRECT_DATA) -> bytes:
    """Return what SignTool writes, without certificates."""
    name = _der(0x30, _oid(ALGORITHMS[algorithm]), _der(5))
    digest_info = _der(0x30, name, _der(4, digest))
    image_data = _der(0x30, _oid(SPC_PE_IMAGE_DATA), _der(0x30, _der(3, b"\0")))
    content = _der(0x30, image_data, digest_info)
    info = _der(0x30, _oid(kind), _der(0xA0, content))
    rest = _der(0xA0, bytes(300))  # in the place of the certificates
    signed_data = _der(0x30, _der(2, b"\1"), _der(0x31, name), info, rest)
    return _der(0x30, _oid(SIGNED_DATA), _der(0xA0, signed_data))


def _digest(content: bytes, algorithm: str) -> bytes:
    """Return the digest of an unsigned image by the specification of Authenticode."""
    optional = int.from_bytes(content[60:64], "little") + 24
    wide = content[optional : optional + 2] == b"\x0b\x02"
    entry = optional + (144 if wide else 128)
    signed = content[: optional + 64] + content[optional + 68 : entry] + content[entry + 8 :]
    return hashlib.new(algorithm, signed).digest()


def _attach(content: bytes, signature: bytes, kind: int = 2) -> bytes:
    """Append a signature to the image; kind 2 is PKCS #7."""
    padded = signature + bytes(-(len(signature) + 8) % 8)
    certificate = struct.pack("<IHH", len(padded) + 8, 0x200, kind) + padded
    optional = int.from_bytes(content[60:64], "little") + 24
    wide = content[optional : optional + 2] == b"\x0b\x02"
    entry = optional + (144 if wide else 128)
    place = struct.pack("<II", len(content), len(certificate))
    return content[:entry] + place + content[entry + 8 :] + certificate


def _read(content: bytes) -> PeFile:
    (found,) = read_objects("a.dll", Bytes(content))
    assert isinstance(found, PeFile), found
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["plain.dll", "i686.dll"])
def test_a_signature_over_the_file_matches(name: str, algorithm: str) -> None:
    content = read_pe_sample(name)
    found = _read(_attach(content, _sign(_digest(content, algorithm), algorithm)))
    assert found.signed
    assert found.signature_matches is True
    assert found.overlay == 0


def test_a_signature_over_another_file_does_not_match() -> None:
    content = read_pe_sample("plain.dll")
    signed = bytearray(_attach(content, _sign(_digest(content, "sha256"), "sha256")))
    signed[0x400] ^= 1  # like a tool that renames a DLL and keeps the old signature
    found = _read(bytes(signed))
    assert found.signed
    assert found.signature_matches is False


@pytest.mark.parametrize(
    "certificate",
    [
        _attach(read_pe_sample("plain.dll"), b"\x30\x80"),
        _attach(read_pe_sample("plain.dll"), bytes(64)),
        _attach(read_pe_sample("plain.dll"), _sign(bytes(32), "sha256"), kind=1),
        _attach(read_pe_sample("plain.dll"), _sign(bytes(32), "sha256", kind=SIGNED_DATA)),
        _attach(read_pe_sample("plain.dll"), _sign(bytes(32), "sha256")[:90]),
    ],
)
def test_of_an_unknown_signature_nothing_is_said(certificate: bytes) -> None:
    found = _read(certificate)
    assert found.signed
    assert found.signature_matches is None


def test_without_a_signature_nothing_is_said() -> None:
    found = _read(read_pe_sample("plain.dll"))
    assert not found.signed
    assert found.signature_matches is None


def test_a_signature_that_is_cut_off_is_malformed() -> None:
    content = _attach(read_pe_sample("plain.dll"), _sign(bytes(32), "sha256"))
    (found,) = read_objects("a.dll", Bytes(content[:-1]))
    assert isinstance(found, MalformedObject)
