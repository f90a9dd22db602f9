"""An attacker with write access to a store gets nothing promoted, and verifying reports it."""

from __future__ import annotations

import gzip
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts import (
    Artifact,
    Withdrawal,
    hash_bytes,
    join_channel,
    list_artifacts,
    list_members,
    list_withdrawn,
    withdraw,
    write_artifact,
)
from binary_checks.fleet.store import (
    artifact_name,
    facts_name,
    promotion_prefix,
    push_prefix,
    verdict_name,
    verdict_prefix,
    withdrawn_name,
)
from fixtures.build_wheel import build_wheel
from fixtures.slow import slow
from tests.fleet.artifacts.made_verdicts import make_key
from tests.fleet.artifacts.release_desk import BAD, GATE, GOOD, Desk

LESS_OF_WINDOWS = """
[[channels.release.cells]]
when = "system=windows"
families = ["linkage"]
reason = "no host"
"""


def verify(desk: Desk, *options: object) -> list[str]:
    """What verifying says."""
    lines = desk.do("verify", *options)[1].splitlines()
    faults = [line for line in lines if f"{desk.store.url}: verified" not in line]
    return [line for line in faults if "not verified" not in line]


def rewrite(desk: Desk, artifact: Artifact) -> None:
    name = artifact_name(artifact.sha256)
    desk.store.delete(name)
    desk.store.create(name, write_artifact(artifact))


def put_zeros(desk: Desk, name: str, size: int) -> None:
    """An object that takes no room on the disk."""
    path = desk.folder / "store" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_a_channel_from_which_files_were_promoted_is_no_gated_one(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    desk.push("1.1", *BAD)
    assert desk.promote()[0] == 1
    assert verify(desk) == []


def test_a_document_that_speaks_of_another_system_passes_no_gate_that_asks_less_of_it(
    desk: Desk,
) -> None:
    policy = GATE.replace('["linkage"]', '["linkage", "runtime"]') + LESS_OF_WINDOWS
    artifact = desk.push("1.0", *GOOD)
    rewrite(desk, replace(artifact, system="windows"))
    status, out, _ = desk.promote(policy=policy)
    assert status == 1
    assert "it is about another artifact.json; somebody tampered with the store" in out
    assert desk.released() == []
    assert any("it is about another artifact.json" in line for line in verify(desk))


def test_a_member_whose_document_was_changed_after_its_promotion_is_found(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    rewrite(desk, replace(artifact, python="3.9"))
    for options in ((), ("--policy", desk.folder / "policy.toml")):
        said = verify(desk, "--channel", "release", *options)
        assert any("its gate refuses the file: linkage: no verdict counts" in line for line in said)


# Whoever attests has a key, and reads the document that an attacker may have changed.

ODD = {"kind": "library", "linked": "static", "metadata_sha256": "a" * 64, "pull_request": "7"}
TEXTS = [
    each.name
    for each in fields(Artifact)
    if each.type == "str" and each.name not in ("sha256", "file_name")
]


@pytest.mark.parametrize(
    ("name", "attested"),
    [
        *((name, "after") for name in TEXTS),
        ("system", "before"),
        *slow(*((name, "before") for name in TEXTS if name != "system")),
    ],
)
def test_no_field_of_a_document_may_be_changed_after_the_push(
    desk: Desk, name: str, attested: str
) -> None:
    key, policy = desk.signed_policy()
    artifact = desk.push("1.0")
    desk.sign_push(artifact, key)
    result = desk.result(artifact, *GOOD)
    if attested == "before":
        assert desk.attest(result, "--key", key) == 0
    rewrite(desk, replace(artifact, **{name: ODD.get(name, "9")}))  # type: ignore[arg-type]
    if attested == "after":
        assert desk.attest(result, "--key", key) == 0
    (member,) = list_members(desk.store, "test")
    status, out, _ = desk.promote("--where", f"sha256={member.sha256}", policy=policy)
    assert status == 1
    assert "artifact.json has no trusted signatures, but the gate requires 1" in out
    assert desk.released() == []
    join_channel(desk.store, "release", artifact)
    assert any("it is about another artifact.json" in line for line in verify(desk))


def test_a_document_that_a_push_with_a_key_made_is_promoted_and_no_other_is_signed(
    desk: Desk,
) -> None:
    key, policy = desk.signed_policy()
    wheel = build_wheel(desk.folder / "dist", tags=("py3-none-any",))
    push = ("push", wheel, "--channel", "test", "--commit", "c" * 40, "--no-index")
    assert desk.do(*push)[0] == 0
    (artifact,) = list_artifacts(desk.store)
    assert desk.attest(desk.result(artifact, *GOOD), "--key", key) == 0
    assert desk.promote(policy=policy)[0] == 1
    rewrite(desk, replace(artifact, commit="d" * 40))
    status, _, err = desk.do(*push, "--key", key)
    assert status == 1
    assert err.count("\n") == 1
    assert "artifact.json in the store has another commit than this push, so no key signs" in err
    rewrite(desk, artifact)
    assert desk.do(*push, "--key", key)[0] == 0
    assert desk.promote(policy=policy)[0] == 0
    assert verify(desk, "--policy", desk.folder / "policy.toml") == []


def test_a_push_with_a_key_does_not_believe_the_facts_in_the_store(desk: Desk) -> None:
    key, _ = make_key(desk.folder)
    push = ("push", build_wheel(desk.folder / "dist", tags=("py3-none-any",)), "--commit", "c" * 40)
    assert desk.do(*push)[0] == 0
    (artifact,) = list_artifacts(desk.store)
    name = facts_name(artifact.sha256)
    desk.store.delete(name)
    desk.store.create(name, gzip.compress(b"{}"))
    assert desk.do(*push, "--key", key)[0] == 0
    assert len(desk.names(push_prefix(artifact.sha256))) == 1


def test_only_a_push_with_a_trusted_key_vouches_for_a_document(desk: Desk) -> None:
    key, policy = desk.signed_policy()
    stranger, _ = make_key(desk.folder, "stranger")
    artifact = desk.push("1.0")
    for signer in (key, stranger):
        assert desk.attest(desk.result(artifact, *GOOD), "--key", signer) == 0
    desk.sign_push(artifact, stranger)
    status, out, _ = desk.promote(policy=policy)
    assert (status, desk.released()) == (1, [])
    assert "push the same file with `artifact push --key FILE`" in out
    (unknown,) = (line for line in out.splitlines() if "/verdicts/" in line)
    assert "signed by an unknown key (keyid" in unknown
    desk.sign_push(artifact, key)
    assert desk.promote(policy=policy)[0] == 0
    assert verify(desk, "--policy", desk.folder / "policy.toml") == []


def test_a_verdict_on_a_file_that_was_renamed_in_the_store_does_not_count(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    (name,) = desk.names(verdict_prefix(artifact.sha256))
    content = (desk.store.read(name) or b"").replace(b"demo-1.0-", b"demo-0.9-")
    desk.store.delete(name)
    desk.store.create(verdict_name(artifact.sha256, hash_bytes(content)), content)
    status, out, _ = desk.promote()
    assert status == 1
    assert (
        "it is about demo-0.9-cp312-cp312-manylinux_2_28_x86_64.whl, a file with the same bytes"
        in out
    )


def test_verdicts_without_end_are_lines_and_never_read(desk: Desk) -> None:
    good, other = desk.push("1.0", *GOOD), desk.push("1.1", *GOOD)
    put_zeros(desk, verdict_name(good.sha256, "0" * 64), 1 << 40)
    for number in range(1, 131):
        put_zeros(desk, verdict_name(other.sha256, f"{number:064x}"), 4 << 20)
    status, out, _ = desk.promote()
    assert status == 1
    assert desk.released() == [good.file_name]
    assert f"{other.file_name}: refused: {desk.store.url}: packages/" in out
    assert "bytes of verdicts; at most 134,217,728 are allowed; somebody tampered" in out
    faults = [line for line in verify(desk, "--channel", "release") if "larger than" in line]
    assert len(faults) == 1


def test_of_many_verdicts_that_count_for_nothing_some_are_shown(desk: Desk) -> None:
    artifact = desk.push("1.0")
    for number in range(60):
        desk.store.create(verdict_name(artifact.sha256, f"{number:064x}"), b"{}")
    status, out, _ = desk.promote()
    assert status == 1
    assert out.count("its bytes do not match its name") == 50
    assert desk.released() == []
    assert "and 10 more invalid verdicts: --json lists them" in out


@pytest.mark.parametrize("prefix", [push_prefix, verdict_prefix, promotion_prefix])
def test_what_lies_beside_what_counts_is_verified_too(desk: Desk, prefix: object) -> None:
    artifact = desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    assert callable(prefix)
    desk.store.create(f"{prefix(artifact.sha256)}{'0' * 64}.json", b"{}")
    (fault,) = verify(desk)
    assert fault.startswith(f"{artifact.file_name}: {desk.store.url}: ")
    assert fault.endswith("its bytes do not match its name")


def test_the_index_of_a_channel_whose_members_are_gone_is_verified_too(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    shutil.rmtree(Path(desk.store.url) / "channels/release")
    (fault,) = verify(desk)
    assert fault.startswith("release: its index does not match its members (run `binary-checks")


def test_a_withdrawal_without_end_is_one_line(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    put_zeros(desk, withdrawn_name("test", "demo", artifact.sha256), 1 << 40)
    status, out, err = desk.promote()
    assert (status, out) == (6, "")
    assert err.count("\n") == 1
    assert "larger than 65536 bytes" in err


@pytest.mark.parametrize("reason", ["", "crashes\non start"])
def test_a_withdrawal_whose_reason_is_not_one_line_is_refused(desk: Desk, reason: str) -> None:
    artifact = desk.push("1.0", *GOOD)
    withdrawal = Withdrawal(
        sha256=artifact.sha256, file_name=artifact.file_name, channel="test", reason=reason, at=""
    )
    assert withdraw(desk.store, artifact, withdrawal)
    with pytest.raises(RecordError, match="its reason is not one line"):
        list_withdrawn(desk.store, "test")
