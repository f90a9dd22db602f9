"""A second host verifies a gated channel with keys of its own; withdrawals."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from binary_checks.errors import RecordError
from binary_checks.fleet.artifacts import (
    Artifact,
    hash_bytes,
    join_channel,
    label_artifacts,
    label_verdicts,
    list_withdrawn,
    load_signing_key,
    read_envelope,
    read_policy,
    read_promotion,
    read_scope,
    verify,
    write_envelope,
    write_promotion,
)
from binary_checks.fleet.store import (
    open_store,
    policy_name,
    promotion_name,
    promotion_prefix,
    verdict_prefix,
    withdrawn_name,
)
from binary_checks.model import Outcome
from fixtures.runs import PROFILE
from tests.fleet.artifacts.made_verdicts import ENDED, entry, make, make_key
from tests.fleet.artifacts.release_desk import BAD, GATE, GOOD, Desk


def gates(desk: Desk, policy: str = "") -> list[str]:
    """What verifying says of promotions, with a policy of whoever verifies."""
    own: tuple[object, ...] = ()
    if policy:
        (desk.folder / "own.toml").write_text(policy, encoding="utf-8")
        own = ("--policy", desk.folder / "own.toml")
    _, out, err = desk.do("verify", "--channel", "release", *own)
    assert err == ""
    said = [line.removeprefix("release: ") for line in out.splitlines() if "release: " in line]
    return [line for line in said if not line.startswith("its index does not match")]


def release(desk: Desk, policy: str, *options: object) -> Artifact:
    artifact = desk.push("1.0")
    desk.sign_push(artifact, *options[1::2])
    assert desk.attest(desk.result(artifact, *GOOD), *options) == 0
    status, out, err = desk.promote(*options, policy=policy)
    assert status == 0, out + err
    return artifact


def test_what_was_promoted_holds_with_and_without_a_policy_and_in_a_copy(desk: Desk) -> None:
    key, policy = desk.signed_policy(more='promoters = ["ci"]\n')
    release(desk, policy, "--key", key)
    assert gates(desk) == []
    assert gates(desk, policy) == []
    shutil.copytree(desk.store.url, desk.folder / "elsewhere")
    own = read_policy(desk.folder / "own.toml", datetime.now(timezone.utc).date())
    scope = read_scope(open_store(str(desk.folder / "elsewhere")), ["release"], own)
    assert scope.channels["release"].members
    assert list(verify(scope)) == []


def test_what_went_past_the_gate_is_named(desk: Desk) -> None:
    release(desk, GATE)
    sneaked = desk.push("1.1", *BAD)
    join_channel(desk.store, "release", sneaked)
    said = f"{sneaked.file_name}: it has no promotion record: it bypassed the gate"
    assert gates(desk) == [said]
    assert gates(desk, GATE) == [said]


def test_a_channel_without_a_gate_is_none(desk: Desk) -> None:
    join_channel(desk.store, "release", desk.push("1.0"))
    assert gates(desk) == []
    assert gates(desk, GATE.replace("channels.release", "channels.other")) == []
    assert len(gates(desk, GATE)) == 1


def test_keys_that_the_store_names_and_the_verifier_does_not_count_for_nothing(desk: Desk) -> None:
    key, policy = desk.signed_policy()
    release(desk, policy, "--key", key)
    _, other = desk.signed_policy("other")
    (line,) = gates(desk, other)
    assert "its gate refuses the file: " in line
    assert "signed by an unknown key (keyid " in line
    assert gates(desk, policy) == []


def test_another_policy_than_mine_let_it_in_and_mine_would_not(desk: Desk) -> None:
    release(desk, GATE)
    stricter = GATE.replace('["linkage"]', '["linkage", "runtime"]')
    (line,) = gates(desk, stricter)
    assert "its gate refuses the file: runtime: no verdict" in line
    assert gates(desk, GATE + "max_age = 3650\n") == []


def test_a_thief_who_brings_a_lax_policy_and_forged_verdicts_is_found_out(desk: Desk) -> None:
    _, policy = desk.signed_policy()
    forged = desk.push("1.0", *GOOD)
    assert desk.promote(policy=GATE)[0] == 0
    assert desk.released() == [forged.file_name]
    (line,) = gates(desk, policy)
    assert "its gate refuses the file: artifact.json has no trusted signatures" in line


def test_a_promotion_that_nobody_whom_i_trust_signed_does_not_count(desk: Desk) -> None:
    key, policy = desk.signed_policy("ann", 'signed = false\npromoters = ["ann"]\n')
    release(desk, GATE)
    (line,) = gates(desk, policy)
    assert line.endswith("nobody signed it")
    desk.attest(desk.result(desk.push("1.0"), *GOOD), "--key", key)
    assert "nobody signed it" in gates(desk, policy)[0]


def change_record(desk: Desk, artifact: Artifact, key: Path, **changes: object) -> None:
    """Put another record in the place of the one that there is, as a thief would."""
    (name,) = desk.names(promotion_prefix(artifact.sha256))
    before = read_envelope(desk.store.read(name) or b"", "it")
    record = replace(read_promotion(before.payload, "it"), **changes)  # type: ignore[arg-type]
    content = write_envelope(write_promotion(record), [load_signing_key(str(key))])
    desk.store.delete(name)
    desk.store.create(promotion_name(artifact.sha256, hash_bytes(content)), content)


def test_a_record_that_a_thief_signed_is_a_strangers(desk: Desk) -> None:
    key, policy = desk.signed_policy(more='promoters = ["ci"]\n')
    thief, _ = make_key(desk.folder, "thief")
    artifact = release(desk, policy, "--key", key)
    change_record(desk, artifact, thief, by="nobody")
    assert "signed by an unknown key" in gates(desk, policy)[0]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"channel": "test"}, "it has no promotion record: it bypassed the gate"),
        ({"file_name": "demo-2.0-py3-none-any.whl"}, "a record for another file: demo/demo-2.0"),
        ({"project": "other"}, "a record for another file: other/demo-1.0"),
        (
            {"at": "2999-01-01T00:00:00+00:00"},
            "the time of its promotion is in the future (2999-",
        ),
        ({"verdicts": ()}, "its promotion does not name verdicts that were there before it"),
        ({"verdicts": ("0" * 64,)}, "its promotion does not name verdicts that were there"),
        ({"at": "2020-01-01T00:00:00+00:00"}, "its promotion does not name verdicts that were"),
    ],
)
def test_a_record_that_does_not_hold_is_one_line(
    desk: Desk, changes: dict[str, object], fault: str
) -> None:
    key, policy = desk.signed_policy(more='promoters = ["ci"]\n')
    artifact = release(desk, policy, "--key", key)
    change_record(desk, artifact, key, **changes)
    (line,) = gates(desk, policy)
    assert fault in line


def test_a_verdict_that_is_gone_or_changed_holds_no_promotion(desk: Desk) -> None:
    key, policy = desk.signed_policy()
    artifact = release(desk, policy, "--key", key)
    (name,) = desk.names(verdict_prefix(artifact.sha256))
    content = desk.store.read(name) or b""
    desk.store.delete(name)
    assert "its gate refuses the file: linkage: no verdict" in gates(desk, policy)[0]
    desk.store.create(name, content.replace(b'"sig": "', b'"sig": "A'))
    assert "its bytes do not match its name" in gates(desk, policy)[0]


HOUR_AGO = (datetime.now(timezone.utc) - timedelta(hours=1)).isoformat(timespec="seconds")


def judge_again(desk: Desk, artifact: Artifact, *options: object, **said: object) -> None:
    """Attest a failure that is newer than the verdict by which the file was promoted."""
    result = desk.result(artifact, *BAD, **{"ended": HOUR_AGO, **said})
    assert desk.attest(result, *options) == 0


def test_a_newer_signed_failure_counts_although_no_record_names_it(desk: Desk) -> None:
    key, policy = desk.signed_policy()
    artifact = release(desk, policy, "--key", key)
    judge_again(desk, artifact, "--key", key)
    for own in ("", policy):
        (line,) = gates(desk, own)
        assert f"its gate refuses the file: failed ({HOUR_AGO}): linkage-check: demo/a.so" in line
    passed_since = desk.result(artifact, *GOOD, ended=datetime.now(timezone.utc).isoformat())
    assert desk.attest(passed_since, "--key", key) == 0
    assert gates(desk, policy) == []


def test_the_time_that_the_signed_statement_states_decides_which_verdict_is_newest(
    desk: Desk,
) -> None:
    key, policy = desk.signed_policy()
    artifact = release(desk, policy, "--key", key)
    before = (datetime.fromisoformat(ENDED) - timedelta(hours=1)).isoformat()
    judge_again(desk, artifact, "--key", key, ended=before)  # attested last, and ended first
    assert gates(desk, policy) == []
    assert desk.promote(policy=policy)[1].startswith(f"{artifact.file_name}: there already")


def test_a_newer_failure_that_the_policy_does_not_ask_for_decides_nothing(desk: Desk) -> None:
    key, policy = desk.signed_policy(more='profile = "default"\n')
    artifact = release(desk, policy, "--key", key)
    stranger, _ = make_key(desk.folder, "stranger")
    judge_again(desk, artifact)  # nobody signed it
    judge_again(desk, artifact, "--key", stranger)
    judge_again(desk, artifact, "--key", key, profile=replace(PROFILE, source="other"))
    tomorrow = (datetime.now(timezone.utc) + timedelta(days=1)).isoformat(timespec="seconds")
    judge_again(desk, artifact, "--key", key, ended=tomorrow)
    assert gates(desk, policy) == []


def test_the_age_of_a_verdict_counts_from_the_promotion(desk: Desk) -> None:
    key, policy = desk.signed_policy()
    artifact = release(desk, policy, "--key", key)
    ended = datetime.fromisoformat(ENDED)
    for hours, faults in ((1, 0), (25, 1)):
        at = (ended + timedelta(hours=hours)).isoformat()
        change_record(desk, artifact, key, at=at)
        found = gates(desk, policy + "max_age = 1\n")
        assert len(found) == faults
    assert f"the verdict of {ENDED} is older than 1 days" in found[0]


def test_a_policy_that_was_relaxed_in_the_store_or_is_gone_is_noticed(desk: Desk) -> None:
    release(desk, GATE)
    (name,) = desk.names("policies/")
    content = desk.store.read(name) or b""
    desk.store.delete(name)
    assert "its bytes do not match its name" in gates(desk)[0]
    desk.store.create(name, content.replace(b"linkage", b"metadata"))
    assert "its bytes do not match its name" in gates(desk)[0]


def test_a_promotion_is_read_as_it_was_written_also_by_in_totos_own_package(desk: Desk) -> None:
    """Its record is a verification summary."""
    from google.protobuf import json_format
    from in_toto_attestation.predicates.vsa.v1 import vsa_pb2
    from in_toto_attestation.v1 import statement_pb2

    artifact = release(desk, GATE)
    (name,) = desk.names(promotion_prefix(artifact.sha256))
    content = desk.store.read(name) or b""
    record = read_promotion(content.removesuffix(b"\n"), "it")
    assert (record.source, record.channel) == ("test", "release")
    assert record.verdicts
    assert desk.store.read(policy_name(record.gate))
    row = json.loads(content)
    assert row["predicate"]["verificationResult"] == "PASSED"
    for change in ("FAILED", "1"):
        row["predicate"]["verificationResult"] = change
        with pytest.raises(RecordError, match="contradict each other"):
            read_promotion(json.dumps(row).encode(), "it")
    row = json.loads(content)
    json_format.ParseDict(row, statement_pb2.Statement())
    assert row["predicate"].pop("verifiedLevels") == []  # a list, as the specification has it
    message = vsa_pb2.VerificationSummary()
    summary = json_format.ParseDict(row["predicate"], message, ignore_unknown_fields=True)
    assert summary.verification_result == "PASSED"
    assert summary.policy.digest["sha256"]
    assert len(summary.input_attestations) == 1


def test_a_channel_advises_against_a_file_for_ever(desk: Desk) -> None:
    artifact = release(desk, GATE)
    asked = ("withdraw", "demo", "--channel", "release", "--reason", "broken on Debian 13")
    assert desk.do(*asked)[:2] == (0, f"{artifact.file_name}: withdrawn\n")
    assert list_withdrawn(desk.store, "release") == {artifact.sha256: "broken on Debian 13"}
    assert desk.do(*asked)[:2] == (0, f"{artifact.file_name}: withdrawn already\n")
    page = desk.store.read("simple/release/demo/index.html") or b""
    assert b'data-yanked="broken on Debian 13"' in page
    assert gates(desk) == []


def test_a_withdrawal_says_why_and_of_what_and_the_file_goes_nowhere_else(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    for reason, asked in ((" ", "demo"), ("why", "other")):
        status, _, err = desk.do("withdraw", asked, "--channel", "test", "--reason", reason)
        assert status == 4
        assert err.count("\n") == 1
    desk.do("withdraw", "demo", "--channel", "test", "--reason", "wrong commit")
    status, out, _ = desk.promote()
    assert status == 1
    assert f"{artifact.file_name}: refused: withdrawn from test: wrong commit;" in out
    name = withdrawn_name("test", "demo", artifact.sha256)
    desk.store.delete(name)
    desk.store.create(name, b'{"schema": "binary-checks/withdrawal/1"}')
    with pytest.raises(RecordError, match="no field"):
        list_withdrawn(desk.store, "test")


def test_files_of_a_channel_without_a_gate_are_labelled(desk: Desk) -> None:
    good, bad, new = desk.push("1.0", *GOOD), desk.push("1.1", *BAD), desk.push("1.2")
    labels = label_artifacts(desk.store, [good.sha256, bad.sha256, new.sha256])
    assert [*labels.values()] == ["passed", "failing", "untested"]
    _, table, _ = desk.do("find", "--verdicts")
    rows = {line.split()[-1]: line.split() for line in table.splitlines()}
    assert "verdict" in rows["file"]
    assert "failing" in rows[bad.file_name]
    document = json.loads(desk.do("find", "--verdicts", "--json")[1])
    assert [each["verdict"] for each in document["artifacts"]] == [*labels.values()]
    assert "verdict" not in desk.do("find")[1]


def test_a_label_is_of_the_newest_verdict_in_each_place() -> None:
    later = (datetime.fromisoformat(ENDED) + timedelta(hours=1)).astimezone(timezone.utc)
    failed, passed = make(*BAD), make(*GOOD, ended=later.isoformat())
    assert label_verdicts([passed, failed]) == "passed"
    assert label_verdicts([passed, replace(failed, places=("image:oldest",))]) == "failing"
    assert label_verdicts([replace(passed, ended=ENDED), failed]) == "failing"
    blind = make(*GOOD, known={"unjudged": "the loader of iOS is not simulated"})
    assert label_verdicts([blind]) == "untested"
    assert label_verdicts([replace(blind, stage="gpu"), passed]) == "untested"
    assert label_verdicts([replace(blind, stage="gpu"), failed]) == "failing"
    broke = make(entry("linkage", Outcome.ERROR, reason="no network"))
    assert label_verdicts([broke]) == "untested"
