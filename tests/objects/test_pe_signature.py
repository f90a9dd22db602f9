"""An Authenticode signature is found, and its digest compared with the file's."""

from __future__ import annotations

import pytest

from binary_checks.model import MalformedObject, PeFile
from binary_checks.objects import read_objects
from fixtures.samples import read_pe_sample
from tests.objects.byte_sources import Bytes
from tests.objects.pe_signatures import (
    ALGORITHMS,
    SIGNED_DATA,
    attach,
    digest_of,
    sign,
)


def _read(content: bytes) -> PeFile:
    (found,) = read_objects("a.dll", Bytes(content))
    assert isinstance(found, PeFile), found
    return found


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["plain.dll", "i686.dll"])
def test_a_signature_over_the_file_matches(name: str, algorithm: str) -> None:
    content = read_pe_sample(name) + b"appended"
    found = _read(attach(content, sign(digest_of(content, algorithm), algorithm)))
    assert found.signed
    assert found.signature_matches is True
    assert found.overlay == 8


def test_a_signature_over_another_file_does_not_match() -> None:
    content = read_pe_sample("plain.dll")
    signed = bytearray(attach(content, sign(digest_of(content, "sha256"), "sha256")))
    signed[0x400] ^= 1  # like a tool that renames a DLL and keeps the old signature
    found = _read(bytes(signed))
    assert found.signed
    assert found.signature_matches is False


@pytest.mark.parametrize(
    "certificate",
    [
        attach(read_pe_sample("plain.dll"), b"\x30\x80"),
        attach(read_pe_sample("plain.dll"), bytes(64)),
        attach(read_pe_sample("plain.dll"), sign(bytes(32), "sha256"), kind=1),
        attach(read_pe_sample("plain.dll"), sign(bytes(32), "sha256", kind=SIGNED_DATA)),
        attach(read_pe_sample("plain.dll"), sign(bytes(32), "sha256")[:90]),
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
    content = attach(read_pe_sample("plain.dll"), sign(bytes(32), "sha256"))
    (found,) = read_objects("a.dll", Bytes(content[:-1]))
    assert isinstance(found, MalformedObject)
