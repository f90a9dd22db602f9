"""Statements and signatures conform to in-toto and DSSE, and every change is noticed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf import json_format
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.artifacts import (
    PublicKey,
    find_signers,
    load_signing_key,
    read_envelope,
    read_passphrase,
    read_public_key,
    read_statement,
    write_envelope,
    write_statement,
)
from binary_checks.model import Accepted, Outcome
from tests.fleet.artifacts.made_verdicts import MISSING, SHA, entry, make, make_key

FAILED = make(
    entry("linkage", Outcome.FAILED),
    entry("metadata"),
    entry("runtime", Outcome.NOT_INSPECTED, reason="no driver"),
)


def public(folder: Path, name: str = "ci") -> PublicKey:
    return read_public_key(name, (folder / f"{name}.pub").read_text(), "policy.toml")


def signed(folder: Path, *names: str) -> bytes:
    keys = [load_signing_key(str(make_key(folder, name)[0])) for name in names or ("ci",)]
    return write_envelope(write_statement(FAILED), keys)


def test_a_verdict_is_read_as_it_was_written() -> None:
    assert read_statement(write_statement(FAILED), "it") == FAILED


def test_the_statement_is_one_for_in_totos_own_package() -> None:
    row = json.loads(write_statement(FAILED))
    parsed = Statement.copy_from_pb(json_format.ParseDict(row, statement_pb2.Statement()))
    parsed.validate()
    assert parsed.pb.subject[0].digest["sha256"] == SHA
    predicate = json_format.ParseDict(row["predicate"], test_result_pb2.TestResult())
    assert predicate.result == "FAILED"
    assert list(predicate.failed_tests) == ["linkage/linkage-check"]
    assert list(predicate.passed_tests) == ["metadata/metadata-check"]
    named = {each.name: each for each in predicate.configuration}
    assert named["profile"].digest["sha256"] == FAILED.profile_sha256
    assert named["known problems"].digest["sha256"] == FAILED.known_problems_sha256


@pytest.mark.parametrize(
    ("found", "result"),
    [
        (entry("linkage"), "PASSED"),
        (entry("linkage", Outcome.WARNED, warnings=(MISSING,)), "WARNED"),
        (
            entry("linkage", Outcome.ACCEPTED, accepted=(Accepted(problem=MISSING, reason="x"),)),
            "WARNED",
        ),
        (entry("linkage", Outcome.ERROR, reason="no network"), "FAILED"),
        (entry("linkage", Outcome.NOT_INSPECTED, reason="none"), "FAILED"),
    ],
)
def test_only_what_is_fit_has_not_failed(found: Any, result: str) -> None:
    assert json.loads(write_statement(make(found)))["predicate"]["result"] == result


def test_the_signature_is_one_over_the_envelopes_own_encoding(tmp_path: Path) -> None:
    """As the specification of DSSE has it, computed here and verified by cryptography alone."""
    row = json.loads(signed(tmp_path))
    payload, kind = base64.b64decode(row["payload"]), row["payloadType"].encode()
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    raw = bytes.fromhex(public(tmp_path).public)
    signature = base64.b64decode(row["signatures"][0]["sig"])
    Ed25519PublicKey.from_public_bytes(raw).verify(signature, encoded)
    assert row["signatures"][0]["keyid"] == public(tmp_path).keyid  # that of securesystemslib
    with pytest.raises(InvalidSignature):
        Ed25519PublicKey.from_public_bytes(raw).verify(signature, payload)


def test_who_signed_is_found_among_those_that_are_trusted(tmp_path: Path) -> None:
    content = read_envelope(signed(tmp_path, "ci", "release"), "it")
    both = [public(tmp_path), public(tmp_path, "release")]
    assert find_signers(content, both).names == {"ci", "release"}
    one = find_signers(content, both[:1])
    assert one.names == {"ci"}
    (fault,) = one.faults
    assert fault.startswith("signed by an unknown key")
    assert write_envelope(b"{}") == b"{}\n"
    assert find_signers(read_envelope(b"{}\n", "it"), both).names == frozenset()


def edit(row: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> bytes:
    change(row)
    return json.dumps(row).encode()


def swap_payload(row: dict[str, Any], old: bytes, new: bytes) -> None:
    said = base64.b64decode(row["payload"]).replace(old, new)
    row["payload"] = base64.b64encode(said).decode()


def swap_signature(row: dict[str, Any]) -> None:
    raw = bytearray(base64.b64decode(row["signatures"][0]["sig"]))
    raw[0] ^= 1
    row["signatures"][0]["sig"] = base64.b64encode(bytes(raw)).decode()


INVALID = "the signature of ci is invalid: the statement was tampered with"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda row: swap_payload(row, b"FAILED", b"PASSED"), INVALID),
        (lambda row: swap_payload(row, SHA.encode(), b"cd" * 32), INVALID),
        (swap_signature, INVALID),
        (lambda row: row["signatures"][0].update(sig="c2hvcnQ="), INVALID),  # a short one
        (lambda row: row["signatures"][0].update(keyid="0" * 64), "signed by an unknown key"),
    ],
)
def test_whatever_is_changed_nobody_has_signed_it(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], fault: str
) -> None:
    content = edit(json.loads(signed(tmp_path)), change)
    found = find_signers(read_envelope(content, "it"), [public(tmp_path)])
    assert found.names == frozenset()
    assert found.faults[0].startswith(fault)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda row: row.update(payloadType="text/plain"), "its payload is 'text/plain'"),
        (lambda row: row.update(signatures=[]), "signatures: expected 1 to 64"),
        (lambda row: row.update(signatures=row["signatures"] * 65), "signatures: expected 1 to 64"),
        (lambda row: row.update(signatures=row["signatures"] * 64), "a repeated or missing keyid"),
        (lambda row: row.update(payload="%"), "payload: not base64"),
        (lambda row: row.update(more=1), "not a DSSE envelope"),
        (lambda row: row["signatures"][0].pop("sig"), "expected keyid and sig"),
    ],
)
def test_what_is_no_envelope_is_one_line(tmp_path: Path, change: Any, fault: str) -> None:
    with pytest.raises(RecordError, match=fault) as error:
        read_envelope(edit(json.loads(signed(tmp_path)), change), "store: x.json")
    assert str(error.value).startswith("store: x.json: ")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda row: row.update(_type="https://in-toto.io/Statement/v0.1"), "not an in-toto"),
        (lambda row: row.update(predicateType="https://slsa.dev/x"), "its predicate is"),
        (lambda row: row["subject"][0].update(name="other.whl"), "contradict each other"),
        (lambda row: row["predicate"].update(result="PASSED"), "contradict each other"),
        (lambda row: row["predicate"].update(failedTests=[]), "contradict each other"),
        (lambda row: row["predicate"].update(configuration=[]), "has no binary-checks/verdict/2"),
        (lambda row: row["predicate"]["configuration"][2]["annotations"].update(new=1), "unknown"),
        (
            lambda row: row["predicate"]["configuration"][2]["annotations"].update(ended="now"),
            "is not a time in UTC",
        ),
    ],
)
def test_a_statement_that_contradicts_itself_is_none(change: Any, fault: str) -> None:
    with pytest.raises(RecordError, match=fault):
        read_statement(edit(json.loads(write_statement(FAILED)), change), "it")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----", "a private key"),
        ("-----BEGIN PUBLIC KEY-----\nMCow", "neither PEM nor base64"),
        ("-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----", "not an ed25519 public key"),
        (f"-----BEGIN PUBLIC KEY-----\n{'A' * 43}=\n-----END PUBLIC KEY-----", "not an ed25519"),
        ("AAAA", "not an ed25519 public key"),
        ("AAAA" * 11, "not an ed25519 public key"),
    ],
)
def test_what_is_no_public_key_is_refused(text: str, fault: str) -> None:
    with pytest.raises(ProfileError, match=fault):
        read_public_key("ci", text, "policy.toml")


def test_a_public_key_is_pem_or_base64_and_a_private_one_a_file_that_nobody_else_reads(
    tmp_path: Path,
) -> None:
    path, raw = make_key(tmp_path)
    known = public(tmp_path)
    assert read_public_key("ci", raw, "policy.toml") == known
    with pytest.raises(ProfileError, match="expected a file name") as error:
        load_signing_key(path.read_text())
    assert "BEGIN" not in str(error.value)
    with pytest.raises(ProfileError, match="No such file"):
        load_signing_key(str(tmp_path / "none"))
    (tmp_path / "ci.pub").chmod(0o600)
    for size, fault in ((16384, "not a private key in PEM"), (16385, "larger than 16384 bytes")):
        (tmp_path / "ci.pub").write_bytes(b"#" * size)
        with pytest.raises(ProfileError, match=fault):
            load_signing_key(str(tmp_path / "ci.pub"))
    for mode in (0o604, 0o602, 0o620) if os.name == "posix" else ():
        path.chmod(mode)
        with pytest.raises(ProfileError, match="other users can read or change it; run chmod 600"):
            load_signing_key(str(path))
    path.chmod(0o640)
    assert load_signing_key(str(path)).public == known.public


def test_a_passphrase_comes_from_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = load_signing_key(str(make_key(tmp_path)[0]))._signer._private_key
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
    )

    locked = tmp_path / "locked.key"
    sealed = BestAvailableEncryption(b"open sesame")
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed))
    locked.chmod(0o600)
    monkeypatch.setenv("SESAME", "open sesame")
    assert load_signing_key(str(locked), read_passphrase("SESAME")).public
    with pytest.raises(ProfileError, match="it needs a passphrase"):
        load_signing_key(str(locked))
    with pytest.raises(ProfileError, match="or another passphrase"):
        load_signing_key(str(locked), b"wrong")
    with pytest.raises(ProfileError, match="no environment variable of that name") as refused:
        read_passphrase("hunter2")
    assert "hunter2" not in str(refused.value)


def test_openssl_agrees(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    made = subprocess.run(
        ["openssl", "genpkey", "-algorithm", "ed25519", "-out", "o.key"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("this openssl makes no ed25519 keys")
    openssl = ["openssl", "pkey", "-in", "o.key", "-pubout", "-out", "o.pub"]
    subprocess.run(openssl, cwd=tmp_path, check=True)
    (tmp_path / "o.key").chmod(0o600)
    key = load_signing_key(str(tmp_path / "o.key"))
    payload = write_statement(FAILED)
    (signature,) = key.sign(payload).values()
    kind = b"application/vnd.in-toto+json"
    encoded = b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)
    (tmp_path / "pae").write_bytes(encoded)
    (tmp_path / "sig").write_bytes(bytes.fromhex(signature))
    verify = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "o.pub", "-rawin"]
    verify += ["-in", "pae", "-sigfile", "sig"]
    done = subprocess.run(verify, cwd=tmp_path, capture_output=True, text=True, check=False)
    if "-rawin" in done.stderr:
        pytest.skip("this openssl verifies no ed25519 signatures")
    assert "Verified Successfully" in done.stdout, done.stderr


def test_nothing_but_signing_and_verifying_imports_the_library() -> None:
    program = (
        "import sys; import binary_checks.command.artifact_channels;"
        "found = [n for n in ('securesystemslib', 'cryptography') if n in sys.modules];"
        "sys.exit(str(found) if found else 0)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("secret", ["ab" * 32, "Qa+/9" * 9, "MC4CAQAwBQYDK2VwBCIEI" * 3 + "a=="])
def test_a_key_without_its_header_is_never_repeated(secret: str) -> None:
    with pytest.raises(ProfileError, match="looks like a key; consider it disclosed") as refused:
        load_signing_key(secret)
    assert secret not in str(refused.value)


def test_a_file_with_a_long_name_is_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, _ = make_key(tmp_path)
    monkeypatch.chdir(tmp_path)
    key.rename("k" * 64)
    assert load_signing_key("k" * 64).public
