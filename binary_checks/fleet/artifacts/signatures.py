"""Signs statements and finds who signed them: DSSE envelopes with ed25519 keys.

The one module that knows securesystemslib (extra ``sign``), and it imports that where it signs or
verifies: a policy that wants no signatures is held without it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from binary_checks.documents.json_values import OddityError, dump
from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.artifacts.verdict import read_object
from binary_checks.lines import cut, one_line
from binary_checks.regular_files import open_regular

PAYLOAD_TYPE = "application/vnd.in-toto+json"
_LARGEST_KEY = 16 << 10  # bytes of a file
_MOST_SIGNATURES = 64
_PUBLIC = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of ed25519 (RFC 8410)
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s+([A-Za-z0-9+/=\s]*?)-----END \1-----")
_BARE = re.compile(
    r"[0-9a-f]{64,}|(?=.*[0-9])(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9+_-][A-Za-z0-9+/_-]{42,}={0,2}"
)
"""32 bytes at least, in hexadecimal or in base64; a path that is missing rarely looks like that."""
_INSTALL = "signatures need the extra sign: pip install 'binary-checks[sign]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicKey:
    """An ed25519 key that a policy trusts, under the name that it gives it."""

    name: str
    public: str  # 64 hexadecimal digits

    @property
    def keyid(self) -> str:
        """By which signatures name it, as securesystemslib has it: of its canonical JSON."""
        row = f'{{"keytype":"ed25519","keyval":{{"public":"{self.public}"}},"scheme":"ed25519"}}'
        return hashlib.sha256(row.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedStatement:
    """A statement as it is kept: bare, or in an envelope with signatures by key id."""

    payload: bytes
    signatures: Mapping[str, str] = field(default_factory=dict)  # hexadecimal


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """Who of those that are trusted signed, and what is wrong with other signatures."""

    names: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()


def read_public_key(name: str, text: str, where: str) -> PublicKey:
    """A public key: PEM, or its 32 bytes in base64. Raises ProfileError."""
    found = _BLOCK.search(text)
    if found and "PRIVATE" in found[1]:
        raise ProfileError(f"{where}: a private key; a policy lists public ones alone")
    if "-----" in text and not found:
        raise ProfileError(f"{where}: a PEM file that is cut off, or none")
    try:
        content = base64.b64decode("".join((found[2] if found else text).split()), validate=True)
    except (binascii.Error, ValueError):
        raise ProfileError(f"{where}: neither PEM nor base64") from None
    raw = content.removeprefix(_PUBLIC) if found else content
    if len(raw) != 32 or (found and len(content) != len(_PUBLIC) + 32):
        raise ProfileError(f"{where}: not the public key of an ed25519 pair")
    return PublicKey(name=name, public=raw.hex())


def read_envelope(content: bytes, named: str) -> SignedStatement:
    """A statement that is kept, bare or in an envelope. Raises RecordError."""
    try:
        row = read_object(content)
        if "payloadType" not in row:
            return SignedStatement(payload=content.removesuffix(b"\n"))
        return _open_envelope(row)
    except OddityError as error:
        raise RecordError(f"{named}: {error}") from None


def _open_envelope(row: Mapping[str, Any]) -> SignedStatement:
    if row.keys() != {"payload", "payloadType", "signatures"}:
        raise OddityError("not a DSSE envelope: payload, payloadType and signatures")
    if row["payloadType"] != PAYLOAD_TYPE:
        raise OddityError(f"its payload is {row['payloadType']!r:.80}, not {PAYLOAD_TYPE}")
    listed = row["signatures"]
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_SIGNATURES:
        raise OddityError(f"signatures: not 1 to {_MOST_SIGNATURES} of them")
    found: dict[str, str] = {}
    for each in listed:
        if not isinstance(each, dict) or each.keys() != {"keyid", "sig"}:
            raise OddityError("signatures: not a keyid and a sig")
        if not isinstance(each["keyid"], str) or each["keyid"] in found:
            raise OddityError("signatures: two by one key, or no keyid")
        found[each["keyid"]] = _decode(each["sig"], "sig").hex()
    return SignedStatement(payload=_decode(row["payload"], "payload"), signatures=found)


def _decode(text: Any, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise OddityError(f"{name}: not base64") from None


def find_signers(signed: SignedStatement, keys: Iterable[PublicKey]) -> Signed:
    """Who of these signed it. A signature of one of them that does not hold is a fault.

    Raises ProfileError where there is a signature to verify, and nothing to do it with.
    """
    trusted = {key.keyid: key for key in keys}
    names, faults = set[str](), list[str]()
    for keyid, signature in signed.signatures.items():
        key = trusted.get(keyid)
        if key is None:
            faults.append(f"signed by a stranger (keyid {cut(one_line(keyid), 40)})")
        elif _holds(signed.payload, signature, key):
            names.add(key.name)
        else:
            faults.append(f"the signature of {key.name} does not hold: it was tampered with")
    return Signed(names=frozenset(names), faults=tuple(faults))


def _holds(payload: bytes, signature: str, key: PublicKey) -> bool:
    try:
        from securesystemslib.dsse import Envelope
        from securesystemslib.exceptions import VerificationError
        from securesystemslib.signer import Signature, SSlibKey
    except ImportError:
        raise ProfileError(_INSTALL) from None
    known = SSlibKey(key.keyid, "ed25519", "ed25519", {"public": key.public})
    envelope = Envelope(payload, PAYLOAD_TYPE, {key.keyid: Signature(key.keyid, signature)})
    try:
        envelope.verify([known], 1)
    except VerificationError:
        return False
    return True


class SigningKey:
    """A private key, read from a file."""

    def __init__(self, signer: Any) -> None:
        self._signer = signer

    @property
    def public(self) -> str:
        """The public one of the pair, as 64 hexadecimal digits."""
        return str(self._signer.public_key.keyval["public"])

    def sign(self, payload: bytes) -> dict[str, str]:
        """Its signature over a statement, by key id."""
        from securesystemslib.dsse import Envelope

        made = Envelope(payload, PAYLOAD_TYPE, {}).sign(self._signer)
        return {made.keyid: made.signature}


def write_envelope(payload: bytes, keys: Iterable[SigningKey] = ()) -> bytes:
    """A statement as it is kept: signed by all of these keys, or bare where there are none.

    Ed25519 is deterministic: the same statement and keys always give the same bytes.
    """
    signatures = {keyid: sig for key in keys for keyid, sig in key.sign(payload).items()}
    if not signatures:
        return payload + b"\n"
    row = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [
            {"keyid": keyid, "sig": base64.b64encode(bytes.fromhex(sig)).decode()}
            for keyid, sig in sorted(signatures.items())
        ],
    }
    return f"{dump(row)}\n".encode("ascii")


def load_signing_key(path: str, passphrase: bytes | None = None) -> SigningKey:
    """The private key in a PEM file (PKCS #8). Raises ProfileError, which never repeats a key."""
    if "-----" in path or "\n" in path or _is_key(path):
        said = "the name of a file is asked for, and this looks like a key; treat it as disclosed"
        raise ProfileError(f"--key: {said}")
    where = f"--key {one_line(path)}"
    content = _read_secret(Path(path), where)
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from securesystemslib.signer import CryptoSigner
    except ImportError:
        raise ProfileError(_INSTALL) from None
    try:
        key = load_pem_private_key(content, passphrase)
    except TypeError:
        lacking = "it has no passphrase" if passphrase else "it needs a passphrase"
        raise ProfileError(f"{where}: {lacking} (--passphrase-env, --passphrase-file)") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = ", or another passphrase" if passphrase else ""
        raise ProfileError(f"{where}: not a private key in PEM{wrong}") from None
    if not isinstance(key, Ed25519PrivateKey):
        made = "openssl genpkey -algorithm ed25519 makes one"
        raise ProfileError(f"{where}: not an ed25519 key: {made}")
    return SigningKey(CryptoSigner(key))


def _is_key(text: str) -> bool:
    """Whether it may be a key without its PEM header, and is not the name of a file."""
    return _BARE.fullmatch(text) is not None and not os.path.lexists(text)


def read_passphrase(variable: str, path: str) -> bytes | None:
    """The passphrase in an environment variable of that name, or in a file.

    Raises ProfileError, which repeats neither: somebody may have given the passphrase itself.
    """
    if variable and path:
        raise ProfileError("--passphrase-env and --passphrase-file: give one of them")
    if variable:
        found = os.environ.get(variable)
        if not found:
            raise ProfileError("--passphrase-env: no environment variable of that name has a text")
        return found.encode()
    if path:
        return _read_secret(Path(path), "--passphrase-file").rstrip(b"\r\n") or None
    return None


def _read_secret(path: Path, where: str) -> bytes:
    """A file that nobody else may read. Raises ProfileError."""
    try:
        with open_regular(path, follow=True) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LARGEST_KEY + 1)
    except (OSError, ValueError) as error:
        raise ProfileError(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    if os.name == "posix" and mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        raise ProfileError(f"{where}: others may read or change it: chmod 600 it")
    if len(content) > _LARGEST_KEY:
        raise ProfileError(f"{where}: larger than {_LARGEST_KEY} bytes")
    return content
