"""Compare the digest in an Authenticode signature with the file's digest.

Certificates are not verified. See PE, "The Attribute Certificate Table (Image Only)" and
"Calculating Authenticode PE Image Hash".
"""

from __future__ import annotations

import hashlib
from struct import Struct

from binary_checks.objects.byte_source import LimitedSource
from binary_checks.objects.pe.header import SECURITY, PeHeader

# WIN_CERTIFICATE: dwLength (bytes, this head included), wRevision, wCertificateType
_CERTIFICATE = Struct("<IHH")
_PKCS_SIGNED_DATA = 2  # WIN_CERT_TYPE_PKCS_SIGNED_DATA
_BLOCK = 1 << 20  # bytes hashed at a time
_OID = 6  # DER tags (X.690): OBJECT IDENTIFIER, and OCTET STRING below
_OCTET_STRING = 4
_SPC_INDIRECT_DATA = bytes.fromhex("2b060104018237020104")  # OID 1.3.6.1.4.1.311.2.1.4
# OIDs of the digest: 1.3.14.3.2.26, and 2.16.840.1.101.3.4.2.1 to .3
_ALGORITHMS = {
    bytes.fromhex("2b0e03021a"): "sha1",
    bytes.fromhex("608648016503040201"): "sha256",
    bytes.fromhex("608648016503040202"): "sha384",
    bytes.fromhex("608648016503040203"): "sha512",
}
# Offset in the optional header; checksum and the directory's entry are not part of the digest.
_CHECKSUM = 64
_SECURITY_ENTRY = {32: 128, 64: 144}  # offset of directory 4 in the optional header, in bytes


def signature_matches(source: LimitedSource, header: PeHeader) -> bool | None:
    """Return whether the file is unchanged since it was signed; None if this is unknown."""
    start, size = header.directories[SECURITY]
    if size <= _CERTIFICATE.size:
        return None
    length, _, kind = _CERTIFICATE.unpack(source.read(start, _CERTIFICATE.size))
    if kind != _PKCS_SIGNED_DATA or not _CERTIFICATE.size < length <= size:
        return None
    body = source.read(start + _CERTIFICATE.size, length - _CERTIFICATE.size)
    try:
        algorithm, digest = _find_digest(body)
    except (IndexError, ValueError, KeyError):
        return None
    return _compute_digest(source, header, algorithm) == digest


def _find_digest(signature: bytes) -> tuple[str, bytes]:
    """Return algorithm and digest from the SpcIndirectDataContent of a PKCS #7 signature."""
    # RFC 2315, section 7: ContentInfo = (contentType, [0] content); section 9.1: SignedData =
    # (version, digestAlgorithms, contentInfo, ...)
    content_info = _elements(_elements(signature)[0][1])
    signed_data = _elements(_elements(content_info[1][1])[0][1])
    kind, content = _elements(signed_data[2][1])[:2]
    if kind != (_OID, _SPC_INDIRECT_DATA):
        raise ValueError("signs something else")
    _, digest_info = _elements(_elements(content[1])[0][1])[:2]
    algorithm, digest = _elements(digest_info[1])[:2]
    if digest[0] != _OCTET_STRING:
        raise ValueError("no digest")
    return _ALGORITHMS[_elements(algorithm[1])[0][1]], digest[1]


def _elements(content: bytes) -> list[tuple[int, bytes]]:
    """Return the tag and the contents of each of the first four elements of a DER sequence."""
    found: list[tuple[int, bytes]] = []
    place = 0
    while place + 1 < len(content) and len(found) < 4:  # certificate tables have padding at the end
        tag, length = content[place], content[place + 1]
        place += 2
        if length & 0x80:
            octets = length & 0x7F  # long form (X.690, 8.1.3.5): how many octets the length has
            length = int.from_bytes(content[place : place + octets], "big")
            place += octets
        found.append((tag, content[place : place + length]))
        place += length
    return found


def _compute_digest(source: LimitedSource, header: PeHeader, algorithm: str) -> bytes:
    """Return the digest of the file without checksum, directory entry and signature."""
    start, size = header.directories[SECURITY]
    checksum = header.optional_offset + _CHECKSUM
    entry = header.optional_offset + _SECURITY_ENTRY[header.bits]
    signed = ((0, checksum), (checksum + 4, entry), (entry + 8, start), (start + size, source.size))
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    for first, last in signed:
        for place in range(first, last, _BLOCK):
            hasher.update(source.read(place, min(_BLOCK, last - place)))
    return hasher.digest()
