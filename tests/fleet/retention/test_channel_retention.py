"""Which members a channel keeps, for any history, and in real stores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.command.actions import ARTIFACT
from binary_checks.fleet.artifacts import (
    Artifact,
    ChannelMember,
    hash_record,
    join_channel,
    keep_artifact,
    keep_verdict,
    list_artifacts,
    list_members,
    read_scope,
    read_selection,
    verify,
    write_index,
)
from binary_checks.fleet.retention.pruning import carry_out, read_history
from binary_checks.fleet.retention.rules import (
    PruneRefusedError,
    Retention,
    StoreHistory,
    digest_of,
    expire,
)
from binary_checks.fleet.store import (
    Store,
    Stored,
    artifact_name,
    expired_name,
    facts_name,
    member_name,
    open_store,
    verdict_name,
)
from tests.fleet.artifacts.made_artifacts import make_artifact
from tests.fleet.artifacts.made_verdicts import entry, make
from tests.fleet.conftest import end_after

NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)


def digest(number: int) -> str:
    return f"{number:064x}"


def artifact(number: int, days: int = 0, **said: Any) -> Artifact:
    """A nightly build, pushed so many days ago."""
    row = {"kind": "wheel", "project": "demo", "version": f"1.{number}", "python": "3.12", **said}
    pushed = (NOW - timedelta(days=days)).isoformat()
    usual = {"sha256": digest(number), "file_name": f"demo-{number}.whl", "size": 100}
    return Artifact(**{**usual, "pushed": pushed, **row})


def history_of(
    channels: dict[str, list[Artifact]],
    further: Iterable[Artifact] = (),
    marked: Iterable[int] = (),
    referred: Iterable[int] = (),
) -> StoreHistory:
    """All that a store has of these channels, and of artifacts in none."""
    every = {a.sha256: a for each in (*channels.values(), further) for a in each}
    names = [
        name
        for each in every.values()
        for name in (
            artifact_name(each.sha256),
            each.object_name,
            verdict_name(each.sha256, digest(1)),
        )
    ]
    return StoreHistory(
        members=tuple(
            ChannelMember(
                channel=channel,
                folder=each.folder,
                file_name=each.file_name,
                sha256=each.sha256,
                stored=Stored(name=member_name(channel, each.folder, each.file_name), size=65),
            )
            for channel, artifacts in channels.items()
            for each in artifacts
        ),
        artifacts=every,
        packages=tuple(
            Stored(name=name, size=1)
            for name in sorted((*names, *map(expired_name, map(digest, marked))))
        ),
        facts=tuple(Stored(name=facts_name(each), size=1) for each in every),
        held={"2026-11-21": frozenset(map(digest, referred))},
    )


def lost(found: Retention) -> set[int]:
    """The packages that go."""
    digests = {digest_of(each.name) for each in found.deletions} - {""}
    return {int(each, 16) for each in digests}


def left(found: Retention) -> set[int]:
    """The members that go."""
    members = (each.name for each in found.deletions if each.name.startswith("channels/"))
    return {int(name.split("-")[-1].partition(".")[0]) for name in members}


def test_the_newest_of_each_configuration_stay() -> None:
    builds = [artifact(n) for n in range(5, 12)]  # versions are no words: 1.9 is before 1.10
    builds += [artifact(n, python="3.13") for n in range(21, 23)]
    found = expire(history_of({"nightly": builds}), "nightly", NOW, keep=3)
    assert left(found) == lost(found) == {5, 6, 7, 8}


def test_builds_of_a_branch_push_out_none_of_another_branch() -> None:
    builds = [artifact(1, branch="release/1.0"), *(artifact(n, branch="main") for n in (2, 3, 4))]
    found = expire(history_of({"nightly": builds}), "nightly", NOW, keep=2)
    assert left(found) == lost(found) == {2}


def test_what_the_conditions_do_not_select_stays_and_takes_nobodys_place() -> None:
    builds = [artifact(n, branch="main") for n in range(1, 5)]
    builds += [artifact(n, branch="release/1.0") for n in range(11, 15)]
    selection = read_selection(["branch=main"])
    found = expire(history_of({"nightly": builds}), "nightly", NOW, keep=1, selection=selection)
    assert left(found) == lost(found) == {1, 2, 3}


def test_what_another_channel_or_a_night_holds_loses_its_place_and_not_its_bytes() -> None:
    builds = [artifact(n) for n in range(1, 5)]
    for history in (
        history_of({"nightly": builds, "release": builds[:1]}),
        history_of({"nightly": builds}, referred=[1]),
    ):
        found = expire(history, "nightly", NOW, keep=1)
        assert left(found) == {1, 2, 3}
        assert lost(found) == {2, 3}
        assert all("release" not in each.name for each in found.deletions)


def test_what_nobody_put_into_a_channel_stays_unless_an_earlier_run_has_marked_it() -> None:
    channels = {"a": [artifact(1)]}
    assert expire(history_of(channels, [artifact(7)]), "a", NOW).deletions == []
    assert lost(expire(history_of(channels, [artifact(7)], marked=[1, 7]), "a", NOW)) == {7}


def test_what_was_pushed_lately_or_nobody_knows_when_stays() -> None:
    builds = [artifact(n, days=40 - n) for n in range(1, 10)]
    found = expire(history_of({"a": builds}), "a", NOW, keep=1, days=35)
    assert left(found) == {1, 2, 3, 4, 5}
    unknown = replace(artifact(1), pushed="yesterday")
    history = history_of({"a": [unknown, artifact(2), artifact(3)]})
    assert left(expire(history, "a", NOW, keep=1)) == {2}


def test_what_refers_goes_first_and_the_mark_last() -> None:
    history = history_of({"a": [artifact(n) for n in range(1, 4)]}, marked=[1])
    found = expire(history, "a", NOW, keep=1)
    kinds = ["channels/", "facts/", "/artifact.json", "/expired", "files/", "packages/"]
    gone = [each.name for each in found.deletions]
    order = [next(kind for kind in kinds if kind in name) for name in gone]
    assert list(dict.fromkeys(order)) == [*kinds[:3], *kinds[4:], "/expired"]
    assert found.marked == (digest(2),)


builds = st.builds(
    artifact,
    st.integers(1, 12),
    st.integers(0, 60),
    python=st.sampled_from(["3.12", "3.13"]),
    pushed=st.sampled_from(["2026-11-01T00:00:00Z", "2026-09-01T00:00:00Z", "?"]),
)
histories = st.builds(
    history_of,
    st.dictionaries(
        st.sampled_from(["nightly", "test", "release"]),
        st.lists(builds, max_size=10, unique_by=lambda each: each.sha256),
        min_size=1,
    ),
    st.lists(builds, max_size=3),
    st.sets(st.integers(1, 12), max_size=3),
    st.sets(st.integers(1, 12), max_size=3),
)


@settings(max_examples=150, deadline=None)
@given(histories, st.integers(1, 4), st.integers(0, 30))
def test_nothing_goes_that_anybody_holds(history: StoreHistory, keep: int, days: int) -> None:
    found = expire(history, "nightly", NOW, keep=keep, days=days)
    names = [each.name for each in found.deletions]
    assert len(names) == len(set(names))
    remaining = [each for each in history.members if each.stored.name not in names]
    assert {e for e in history.members if e.channel != "nightly"} <= {*remaining}
    held = {each.sha256 for each in remaining}.union(history.known, *history.held.values())
    assert not {digest(number) for number in lost(found)} & held
    known = {each.sha256 for each in history.members if each.channel == "nightly"}
    marked = {digest_of(e.name) for e in history.packages if e.name.endswith("/expired")}
    assert {digest(number) for number in lost(found)} <= known | marked
    for number in lost(found):  # of an artifact all goes
        beside = {e.name for e in history.packages if digest_of(e.name) == digest(number)}
        assert beside <= {*names}
    axes = {a.python for s, a in history.artifacts.items() if s in known}
    for python in axes:  # each configuration keeps something
        assert any(
            history.artifacts[each.sha256].python == python
            for each in remaining
            if each.channel == "nightly"
        )


def fill(store: Store, folder: Path, count: int, channel: str = "nightly") -> list[Artifact]:
    folder.mkdir(exist_ok=True)
    found = []
    for number in range(count):
        name = f"demo-1.{number}-py3-none-any.whl"
        made, incoming = make_artifact(
            folder,
            name.encode(),
            name,
            {"licenses/MIT": b"as is"},
            version=f"1.{number}",
            pushed=f"2026-11-{number + 1:02}T00:00:00Z",
        )
        keep_artifact(store, made, incoming)
        verdict = make(entry("linkage"), sha256=made.sha256)
        keep_verdict(store, replace(verdict, artifact_json_sha256=hash_record(made)))
        join_channel(store, channel, made)
        found.append(made)
    write_index(store, channel)
    return found


def faults(store: Store) -> list[str]:
    """Those that a sound store of files that are no packages does not have."""
    every = (f"{each.about}: {each.text}" for each in verify(read_scope(store, [])))
    return [each for each in every if "cannot be read" not in each]


def prune(store: Store, *options: str) -> int:
    return ARTIFACT.run(["prune", "--store", store.url, "--channel", "nightly", *options])


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--keep", "0", "artifact prune: --keep: at least 1\n"),
        ("--days", "-1", "artifact prune: --days: 0 to 36,500\n"),
        ("--days", "36501", "artifact prune: --days: 0 to 36,500\n"),
        ("--channel", "nigthly", "{store.url}: no channel nigthly (known: none)\n"),
        ("--channel", "../x", ""),
    ],
)
def test_what_cannot_be_is_misuse_and_one_line(
    option: str, value: str, said: str, folder_store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prune(folder_store, option, value) == 4
    shown = capsys.readouterr().err
    assert shown.startswith(f"binary-checks: {said.format(store=folder_store)}")
    assert shown.count("\n") == 1


def test_without_being_told_so_it_deletes_nothing_and_told_so_it_leaves_a_sound_store(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = fill(store, tmp_path / "made", 5)
    join_channel(store, "release", made[0])
    write_index(store, "release")
    before = [each.name for each in store.names("")]
    assert prune(store, "--keep", "2") == 0
    assert [each.name for each in store.names("")] == before
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "kept: 2 members of 1 channel: 2 of the last 2"
    assert lines[1].startswith("delete: channels/nightly/demo/: 3 objects, ")
    assert lines[-1].endswith("; nothing is deleted without --do-it")
    assert prune(store, "--keep", "2", "--do-it") == 0
    assert {each.sha256 for each in list_artifacts(store)} == {made[n].sha256 for n in (0, 3, 4)}
    assert {each.channel: each.sha256 for each in list_members(store, "release")} == {
        "release": made[0].sha256
    }
    digests = {digest_of(each.name) for each in store.names("packages/")}
    assert digests == {made[n].sha256 for n in (0, 3, 4)}
    assert faults(store) == []
    assert prune(store, "--keep", "2", "--do-it") == 0


def test_one_that_is_ended_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    for limit in (1, 2, 5, 8, 13, 60):
        store = open_store(str(tmp_path / f"kept{limit}"), make=True)
        fill(store, tmp_path / "made", 4)
        with end_after(limit, store):
            ended = prune(store, "--keep", "1", "--do-it")
        assert ended in (0, 6)
        assert prune(store, "--keep", "1", "--do-it") == 0
        assert len({digest_of(each.name) for each in store.names("packages/")}) == 1
        assert faults(store) == []
    assert ended == 0  # the last limits were above all that goes


def test_a_push_meanwhile_ends_it(folder_store: Store, tmp_path: Path) -> None:
    store = folder_store
    made = fill(store, tmp_path / "made", 4)
    history = read_history(store, "nightly")
    retention = expire(history, "nightly", NOW, keep=1)
    join_channel(store, "release", made[0])
    with pytest.raises(PruneRefusedError, match="a channel changed, meanwhile"):
        carry_out(store, retention, history)
    assert len(list(list_artifacts(store))) == 4


def test_a_package_that_joins_while_its_bytes_go_is_named(
    folder_store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = folder_store
    made = fill(store, tmp_path / "made", 2)
    true_delete = type(store).delete

    def delete(self: Any, name: str) -> None:
        if name == expired_name(made[0].sha256):
            join_channel(store, "release", made[0])
        true_delete(self, name)

    monkeypatch.setattr(type(store), "delete", delete)
    assert prune(store, "--keep", "1", "--do-it") == 1
    said = capsys.readouterr().err
    assert "it was added while its bytes were deleted: push it again" in said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("channels/release/demo/surprise.whl", b"not a hash"),
        ("night=2026-11-20/results/a.cpu1.json", b""),
    ],
)
def test_nothing_is_deleted_where_something_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    store = open_store(str(tmp_path / "kept"), make=True)
    fill(store, tmp_path / "made", 3)
    store.create(name, content)
    before = [each.name for each in store.names("")]
    assert prune(store, "--keep", "1", "--do-it") == 1
    assert [each.name for each in store.names("")] == before
    assert "nothing is deleted: " in capsys.readouterr().err
