"""`artifact restore`: a release candidate returns to the channel in which it is tested."""

from __future__ import annotations

from binary_checks.fleet.artifacts import Artifact, list_members
from binary_checks.fleet.store import member_name
from tests.fleet.artifacts.release_desk import GATE, GOOD, Desk


def leave(desk: Desk, artifact: Artifact, channel: str = "test") -> None:
    """Take a file out of a channel, as retention does."""
    desk.store.delete(member_name(channel, artifact.folder, artifact.file_name))


def in_channel(desk: Desk, channel: str = "test") -> list[str]:
    return [each.sha256 for each in list_members(desk.store, channel)]


def test_a_file_that_left_the_channel_returns(desk: Desk) -> None:
    candidate, other = desk.push("1.0"), desk.push("1.1")
    leave(desk, candidate)
    before = desk.names()
    words = ("restore", "--to", "test", "--where", f"sha256={candidate.sha256}")
    status, out, _ = desk.do(*words, "--dry-run")
    assert (status, out) == (0, f"{candidate.file_name}: would be restored\n")
    assert desk.names() == before
    status, out, _ = desk.do(*words)
    assert (status, out) == (0, f"{candidate.file_name}: restored\n")
    assert sorted(in_channel(desk)) == sorted([candidate.sha256, other.sha256])
    status, out, _ = desk.do(*words)
    assert (status, out) == (0, f"{candidate.file_name}: there already\n")


def test_the_files_of_a_release_return_to_the_test_channel(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    leave(desk, artifact)
    assert desk.do("restore", "--to", "test", "--channel", "release")[0] == 0
    assert in_channel(desk) == [artifact.sha256]


def test_other_bytes_under_that_name_are_not_replaced(desk: Desk) -> None:
    name = "demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    first = desk.push("1.0", name=name, commit="1" * 40)
    leave(desk, first)
    second = desk.push("1.0rc2", name=name, commit="2" * 40)
    status, out, _ = desk.do("restore", "--to", "test", "--where", f"commit={'1' * 12}")
    assert status == 1
    assert "refused: the channel test has other bytes under that name" in out
    assert in_channel(desk) == [second.sha256]
    assert desk.do("restore", "--to", "test-rc1", "--where", f"commit={'1' * 12}")[0] == 0
    assert in_channel(desk, "test-rc1") == [first.sha256]


def test_bytes_that_are_gone_or_changed_do_not_return(desk: Desk) -> None:
    artifact = desk.push("1.0")
    leave(desk, artifact)
    name = artifact.object_name
    desk.store.delete(name)
    status, out, _ = desk.do("restore", "--to", "test", "--where", "version=1.0")
    assert (status, out) == (
        1,
        f"{artifact.file_name}: refused: {desk.store.url}: {name}: missing\n",
    )
    desk.store.create(name, b"others")
    status, out, _ = desk.do("restore", "--to", "test", "--where", "version=1.0")
    assert (status, out) == (
        1,
        f"{artifact.file_name}: refused: {desk.store.url}: {name}: its bytes do not match its "
        "name\n",
    )
    assert in_channel(desk) == []


def test_a_channel_with_a_gate_takes_nothing_back(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    assert desk.promote(policy=GATE)[0] == 0
    desk.push("1.1")
    status, _, err = desk.do("restore", "--to", "release", "--where", "version=1.1")
    assert status == 4
    assert "release has a gate: `artifact promote` adds files to it" in err


def test_a_withdrawn_file_stays_withdrawn(desk: Desk) -> None:
    artifact = desk.push("1.0")
    assert desk.do("withdraw", "demo", "--channel", "test", "--reason", "crashes")[0] == 0
    leave(desk, artifact)
    _, out, _ = desk.do("restore", "--to", "test", "--where", "version=1.0")
    assert out == f"{artifact.file_name}: restored: it stays withdrawn from test: crashes\n"


def test_files_are_named_and_found(desk: Desk) -> None:
    desk.push("1.0")
    status, _, err = desk.do("restore", "--to", "test")
    assert (status, "say which files" in err) == (4, True)
    status, _, err = desk.do("restore", "--to", "test", "--where", "version=9")
    assert (status, "no artifact matches" in err) == (1, True)
