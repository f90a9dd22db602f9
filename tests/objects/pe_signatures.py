"""Authenticode signatures as SignTool writes them, without certificates."""

from __future__ import annotations

import hashlib
import struct

SIGNED_DATA = "2a864886f70d010702"
SPC_INDIRECT_DATA = "2b060104018237020104"
SPC_PE_IMAGE_DATA = "2b06010401823702010f"
ALGORITHMS = {"sha1": "2b0e03021a", "sha256": "608648016503040201", "sha384": "608648016503040202"}


def encode(tag: int, *contents: bytes) -> bytes:
    content = b"".join(contents)
    if len(content) < 128:
        return bytes([tag, len(content)]) + content
    return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content


def encode_oid(value: str) -> bytes:
    return encode(6, bytes.fromhex(value))


def sign(digest: bytes, algorithm: str, kind: str = SPC_INDIRECT_DATA) -> bytes:
    """Return what SignTool writes, without certificates."""
    name = encode(0x30, encode_oid(ALGORITHMS[algorithm]), encode(5))
    digest_info = encode(0x30, name, encode(4, digest))
    image_data = encode(0x30, encode_oid(SPC_PE_IMAGE_DATA), encode(0x30, encode(3, b"\0")))
    content = encode(0x30, image_data, digest_info)
    info = encode(0x30, encode_oid(kind), encode(0xA0, content))
    rest = encode(0xA0, bytes(300))  # in the place of the certificates
    signed_data = encode(0x30, encode(2, b"\1"), encode(0x31, name), info, rest)
    return encode(0x30, encode_oid(SIGNED_DATA), encode(0xA0, signed_data))


def digest_of(content: bytes, algorithm: str) -> bytes:
    """Return the digest of an unsigned image by the specification of Authenticode."""
    optional = int.from_bytes(content[60:64], "little") + 24
    wide = content[optional : optional + 2] == b"\x0b\x02"
    entry = optional + (144 if wide else 128)
    signed = content[: optional + 64] + content[optional + 68 : entry] + content[entry + 8 :]
    return hashlib.new(algorithm, signed).digest()


def attach(content: bytes, signature: bytes, kind: int = 2) -> bytes:
    """Append a signature to the image; kind 2 is PKCS #7."""
    padded = signature + bytes(-(len(signature) + 8) % 8)
    certificate = struct.pack("<IHH", len(padded) + 8, 0x200, kind) + padded
    optional = int.from_bytes(content[60:64], "little") + 24
    wide = content[optional : optional + 2] == b"\x0b\x02"
    entry = optional + (144 if wide else 128)
    place = struct.pack("<II", len(content), len(certificate))
    return content[:entry] + place + content[entry + 8 :] + certificate
