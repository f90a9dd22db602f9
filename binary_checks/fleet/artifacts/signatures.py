"""Sign statements and find their signers: DSSE envelopes with ed25519 keys.

Only this module uses securesystemslib (extra ``sign``). The library is imported only for signing
and verifying, so that a policy without signatures does not need it.
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

from binary_checks.documents.json_values import DocumentError, dump
from binary_checks.errors import ProfileError, RecordError
from binary_checks.files import open_regular
from binary_checks.fleet.artifacts.verdict import read_object
from binary_checks.safe_text import cut, one_line

PAYLOAD_TYPE = "application/vnd.in-toto+json"
LARGEST_KEY = 16 << 10  # bytes of a file
_MOST_SIGNATURES = 64
_PUBLIC = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of ed25519 (RFC 8410)
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s+([A-Za-z0-9+/=\s]*?)-----END \1-----")
_BARE = re.compile(
    r"[0-9a-f]{64,}|(?=.*[0-9])(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9+_-][A-Za-z0-9+/_-]{42,}={0,2}"
)
"""At least 32 bytes in hexadecimal or base64; the path of a missing file rarely looks like that."""
_INSTALL = "signatures need securesystemslib: pip install 'binary-checks[sign]'"


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicKey:
    """An ed25519 key that a policy trusts, and the name that the policy gives it."""

    name: str
    public: str  # 64 hexadecimal digits

    @property
    def keyid(self) -> str:
        """The key's id in signatures, as securesystemslib makes it: a hash of JSON."""
        row = f'{{"keytype":"ed25519","keyval":{{"public":"{self.public}"}},"scheme":"ed25519"}}'
        return hashlib.sha256(row.encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedStatement:
    """A statement as stored: bare, or in an envelope with signatures."""

    payload: bytes
    signatures: Mapping[str, str] = field(default_factory=dict)  # key id -> hexadecimal signature


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """The trusted signers of a statement, and the faults of its other signatures."""

    names: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()


def read_public_key(name: str, text: str, where: str) -> PublicKey:
    """Read a public key, PEM or 32 bytes in base64. Raises ProfileError."""
    found = _BLOCK.search(text)
    if found and "PRIVATE" in found[1]:
        raise ProfileError(f"{where}: a private key; a policy contains only public keys")
    try:
        content = base64.b64decode("".join((found[2] if found else text).split()), validate=True)
    except (binascii.Error, ValueError):
        raise ProfileError(f"{where}: neither PEM nor base64") from None
    raw = content.removeprefix(_PUBLIC) if found else content
    if len(raw) != 32 or (found and raw == content):
        raise ProfileError(f"{where}: not an ed25519 public key")
    return PublicKey(name=name, public=raw.hex())


def read_envelope(content: bytes, named: str) -> SignedStatement:
    """Read a stored statement, bare or in an envelope. Raises RecordError."""
    try:
        row = read_object(content)
        if "payloadType" not in row:
            return SignedStatement(payload=content.removesuffix(b"\n"))
        if row.keys() != {"payload", "payloadType", "signatures"}:
            raise DocumentError("not a DSSE envelope: expected payload, payloadType and signatures")
        if row["payloadType"] != PAYLOAD_TYPE:
            raise DocumentError(f"its payload is {row['payloadType']!r:.80}, not {PAYLOAD_TYPE}")
        signatures = _read_signatures(row["signatures"])
        return SignedStatement(payload=_decode(row["payload"], "payload"), signatures=signatures)
    except DocumentError as error:
        raise RecordError(f"{named}: {error}") from None


def _read_signatures(listed: Any) -> dict[str, str]:
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_SIGNATURES:
        raise DocumentError(f"signatures: expected 1 to {_MOST_SIGNATURES}")
    found: dict[str, str] = {}
    for each in listed:
        if not isinstance(each, dict) or each.keys() != {"keyid", "sig"}:
            raise DocumentError("signatures: expected keyid and sig")
        if not isinstance(each["keyid"], str) or each["keyid"] in found:
            raise DocumentError("signatures: a repeated or missing keyid")
        found[each["keyid"]] = _decode(each["sig"], "sig").hex()
    return found


def _decode(text: Any, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):
        raise DocumentError(f"{name}: not base64") from None


def find_signers(signed: SignedStatement, keys: Iterable[PublicKey]) -> Signed:
    """Return which of the keys signed a statement; an invalid signature is a fault.

    Raises ProfileError if there is a signature to verify and securesystemslib is not installed.
    """
    trusted = {key.keyid: key for key in keys}
    names, faults = set[str](), list[str]()
    for keyid, signature in signed.signatures.items():
        key = trusted.get(keyid)
        if key is None:
            faults.append(f"signed by an unknown key (keyid {cut(one_line(keyid), 40)})")
        elif _holds(signed.payload, signature, key):
            names.add(key.name)
        else:
            faults.append(
                f"the signature of {key.name} is invalid: the statement was tampered with"
            )
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
        """The public key of the pair, as 64 hexadecimal digits."""
        return str(self._signer.public_key.keyval["public"])

    def sign(self, payload: bytes) -> dict[str, str]:
        """Sign a statement; return key id -> signature."""
        from securesystemslib.dsse import Envelope

        made = Envelope(payload, PAYLOAD_TYPE, {}).sign(self._signer)
        return {made.keyid: made.signature}


def write_envelope(payload: bytes, keys: Iterable[SigningKey] = ()) -> bytes:
    """Return a statement as it is stored: signed by all keys, or bare if there are none.

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
    """Read a private key in PEM (PKCS #8). Raises ProfileError, which never contains the key."""
    bare = _BARE.fullmatch(path) and not os.path.lexists(path)
    if "-----" in path or "\n" in path or bare:
        message = "expected a file name, but this looks like a key; consider it disclosed"
        raise ProfileError(f"--key: {message}")
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
        raise ProfileError(f"{where}: {lacking} (--passphrase-env)") from None
    except (ValueError, UnsupportedAlgorithm):
        wrong = ", or another passphrase" if passphrase else ""
        raise ProfileError(f"{where}: not a private key in PEM{wrong}") from None
    if not isinstance(key, Ed25519PrivateKey):
        made = "openssl genpkey -algorithm ed25519 makes one"
        raise ProfileError(f"{where}: not an ed25519 key: {made}")
    return SigningKey(CryptoSigner(key))


def read_passphrase(variable: str) -> bytes | None:
    """Return the passphrase from the named environment variable, or None if none is named.

    Raises ProfileError, which does not repeat the argument: a user may have passed the passphrase
    itself.
    """
    if not variable:
        return None
    found = os.environ.get(variable)
    if not found:
        raise ProfileError("--passphrase-env: no environment variable of that name is set")
    return found.encode()


def _read_secret(path: Path, where: str) -> bytes:
    """Read a file that other users can neither read nor change. Raises ProfileError."""
    try:
        with open_regular(path, follow=True) as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(LARGEST_KEY + 1)
    except (OSError, ValueError) as error:
        raise ProfileError(f"{where}: {getattr(error, 'strerror', None) or error}") from None
    if os.name == "posix" and mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        raise ProfileError(f"{where}: other users can read or change it; run chmod 600")
    if len(content) > LARGEST_KEY:
        raise ProfileError(f"{where}: larger than {LARGEST_KEY} bytes")
    return content
