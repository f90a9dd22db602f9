"""What a store keeps of its nights, for any history, and by examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binary_checks.fleet.artifacts import ChannelMember
from binary_checks.fleet.retention import rules
from binary_checks.fleet.retention.rules import (
    PastCell,
    PruneRefusedError,
    Retention,
    StoreHistory,
    digest_of,
    retain,
)
from binary_checks.fleet.store import (
    Stored,
    artifact_name,
    facts_name,
    file_prefix,
    log_name,
    member_name,
    result_name,
    verdict_name,
)
from binary_checks.model import CellState

PASSED, FAILED, MISSING = CellState.PASSED, CellState.FAILED, CellState.MISSING
LETTERS = {"·": PASSED, "X": FAILED, "k": CellState.KNOWN, "~": CellState.FLAKY, "-": MISSING}


def day(number: int) -> str:
    return str(date(2026, 11, 1) + timedelta(number))


def digest(number: int) -> str:
    return f"{number:064x}"


def history_of(
    cells: dict[str, str], packages: dict[str, Iterable[int]] | None = None
) -> StoreHistory:
    """Nights of cells as letters, oldest first; each with a package of its own, or as given."""
    past = []
    for number, (cell, letters) in enumerate(cells.items()):
        numbers = list(
            (packages or {}).get(cell, range(1000 * number, 1000 * number + len(letters)))
        )
        for night, letter in enumerate(letters):
            sha256 = digest(numbers[night]) if letter != "-" else ""
            state = LETTERS[letter]
            past.append(
                PastCell(cell=cell, night=day(night), state=state, sha256=sha256, facts=sha256)
            )
    return with_objects(StoreHistory(past=tuple(past)))


def with_objects(history: StoreHistory) -> StoreHistory:
    """All that a store has after such nights."""
    attempts = [
        Stored(name=name, size=1)
        for each in history.past
        if each.sha256
        for name in (
            result_name(each.night, each.cell, "cpu", 1),
            log_name(each.night, (each.cell, "cpu", 1), "1090" * 16, good=False),
        )
    ]
    digests = sorted({each.sha256 for each in history.past} - {""})
    return replace(
        history,
        attempts=tuple(attempts),
        facts=tuple(Stored(name=facts_name(each), size=10) for each in digests),
        packages=tuple(Stored(name=name, size=100) for each in digests for name in list_kept(each)),
    )


BESIDE = ("a.whl", "a.whl.metadata", f"with/{digest(1)[:16]}/MIT")


def list_kept(sha256: str) -> list[str]:
    """All that lies beside a package that was pushed."""
    return [
        artifact_name(sha256),
        *(f"{file_prefix('demo', sha256)}{name}" for name in BESIDE),
        verdict_name(sha256, digest(2)),
    ]


def member(channel: str, sha256: str) -> ChannelMember:
    file_name = f"a-{sha256[-8:]}.whl"
    stored = Stored(name=member_name(channel, "demo", file_name), size=65)
    return ChannelMember(
        channel=channel, folder="demo", file_name=file_name, sha256=sha256, stored=stored
    )


def names(found: Retention) -> list[str]:
    return [each.name for each in found.deletions]


def nights_kept(found: Retention, cell: str = "a") -> list[int]:
    kept = sorted(night for each, night in found.kept if each == cell)
    return [(date.fromisoformat(each) - date(2026, 11, 1)).days for each in kept]


@pytest.mark.parametrize(
    ("letters", "kept"),
    [
        ("·······", [2, 3, 4, 5, 6]),
        ("·XXXXXX", [0, 2, 3, 4, 5, 6]),
        ("kXXXXXX", [0, 2, 3, 4, 5, 6]),
        ("·~XXXXX", [0, 2, 3, 4, 5, 6]),
        ("XXXXXXX", [2, 3, 4, 5, 6]),
        ("··-----", [1, 2, 3, 4, 5, 6]),
        ("··", [0, 1]),
    ],
)
def test_the_last_five_nights_and_the_last_that_passed_are_kept(
    letters: str, kept: list[int]
) -> None:
    found = retain(history_of({"a": letters}))
    assert nights_kept(found) == kept
    gone = [number for number in range(len(letters)) if number not in kept]
    wanted = [
        *(facts_name(digest(n)) for n in gone),
        *(artifact_name(digest(n)) for n in gone),
        *(name for n in gone for name in list_kept(digest(n))[1:]),
    ]
    assert [name for name in names(found) if not name.startswith("night=")] == wanted


def test_each_kept_night_says_why() -> None:
    history = history_of({"a": "X·XX"})
    history = replace(history, members=(member("release", digest(0)),))
    assert retain(history, keep=1).kept == {
        ("a", day(0)): ("in the channel release",),
        ("a", day(1)): ("the last night that passed",),
        ("a", day(3)): ("of the last 1",),
    }


def test_what_a_channel_holds_stays_with_its_facts_and_its_last_results() -> None:
    history = history_of({"a": "··XXXXXXX"}, {"a": [7, 7, 8, 9, 9, 9, 9, 9, 9]})
    held = replace(history, members=(member("release", digest(8)),))
    assert nights_kept(retain(held)) == [1, 2, 4, 5, 6, 7, 8]
    assert f"{file_prefix('demo', digest(8))}a.whl" in names(retain(history))
    assert not any(digest(8) in name for name in names(retain(held)))


def test_an_expiring_channel_holds_nothing_and_loses_what_goes() -> None:
    history = history_of({"a": "·······"})
    history = replace(history, members=(member("nightly", digest(0)), member("nightly", digest(6))))
    gone = names(retain(history, expiring=frozenset({"nightly"})))
    assert [name for name in gone if name.startswith("channels/")] == [
        member("nightly", digest(0)).stored.name
    ]
    assert gone.index(member("nightly", digest(0)).stored.name) < gone.index(
        f"{file_prefix('demo', digest(0))}a.whl"
    )


def test_what_refers_to_something_goes_before_it() -> None:
    kinds = ["results/", "/failed/", "channels/", "facts/", "/artifact.json"]
    history = history_of({"a": "·" * 9, "b": "X" * 9})
    history = replace(history, members=(member("nightly", digest(0)),))
    gone = names(retain(history, expiring=frozenset({"nightly"})))
    order = [next((n for n, kind in enumerate(kinds) if kind in name), 5) for name in gone]
    assert order == sorted(order)
    assert set(order) == {0, 1, 2, 3, 4, 5}


def test_a_package_that_no_night_knows_is_kept_with_its_facts() -> None:
    history = history_of({"a": "·······"})
    pushed = (*history.packages, Stored(name=f"{file_prefix('demo', digest(77))}new.whl", size=1))
    facts = tuple(Stored(name=facts_name(digest(n)), size=1) for n in (77, 78))
    found = retain(replace(history, packages=pushed, facts=facts))
    assert [name for name in names(found) if digest(77) in name] == []
    assert facts_name(digest(78)) in names(found), "nothing refers to these"


def test_tables_plans_marks_and_other_files_below_facts_are_never_deleted() -> None:
    history = history_of({"a": "·······"})
    others = ("plan.json", "closed.json", "cells.parquet", "objects.parquet", "frozen/aa.toml")
    given = tuple(Stored(name=f"night={day(0)}/{name}", size=1) for name in others)
    attempts, facts = (*history.attempts, *given), (*history.facts, Stored(name="facts/a", size=1))
    gone = names(retain(replace(history, attempts=attempts, facts=facts)))
    assert not set(gone) & {"facts/a", *(each.name for each in given)}
    assert result_name(day(0), "a", "cpu", 1) in gone


def test_a_decision_that_would_lose_the_last_good_package_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rules, "_keep_nights", lambda *_: {})
    with pytest.raises(PruneRefusedError, match=f"a: it would lose its last good .* {day(1)}"):
        retain(history_of({"a": "X·XX"}))


states = st.sampled_from(sorted(CellState, key=str))
past_cells = st.builds(
    lambda cell, night, state, package, facts: PastCell(
        cell=cell,
        night=day(night),
        state=state,
        sha256=digest(package) if package else "",
        facts=digest(facts) if facts else "",
    ),
    st.sampled_from("abc"),
    st.integers(0, 12),
    states,
    st.integers(0, 6),
    st.integers(0, 6),
)
histories = st.builds(
    lambda past, held, channels: replace(
        with_objects(
            StoreHistory(past=tuple({(each.cell, each.night): each for each in past}.values()))
        ),
        held={day(20): frozenset(map(digest, held))},
        members=tuple(member(channel, digest(each)) for channel, each in channels),
    ),
    st.lists(past_cells, max_size=40),
    st.sets(st.integers(1, 6), max_size=2),
    st.sets(st.tuples(st.sampled_from(("release", "nightly")), st.integers(1, 6)), max_size=3),
)


@settings(max_examples=100, deadline=None)
@given(histories, st.integers(1, 6), st.sets(st.sampled_from(("release", "nightly"))))
def test_no_deletion_takes_the_last_good_of_a_cell_or_what_is_held(
    history: StoreHistory, keep: int, expiring: set[str]
) -> None:
    gone = names(retain(history, keep=keep, expiring=frozenset(expiring)))
    lost = {digest_of(name) for name in gone} - {""}
    for cell in "abc":
        nights = sorted((e for e in history.past if e.cell == cell), key=lambda e: e.night)
        good = [each for each in nights if each.state in (CellState.PASSED, CellState.KNOWN)]
        for each in (*good[-1:], *nights[-keep:]):
            assert not lost & {each.sha256, each.facts}
            assert not any(name.startswith(f"night={each.night}/results/{cell}.") for name in gone)
    held = {m.sha256 for m in history.members if m.channel not in expiring}
    assert not lost & held.union(*history.held.values())
    assert len(gone) == len(set(gone))


@settings(max_examples=40, deadline=None)
@given(histories, st.integers(1, 6), st.data())
def test_whatever_a_kill_leaves_the_same_is_left_in_the_end(
    history: StoreHistory, keep: int, data: st.DataObject
) -> None:
    gone = names(retain(history, keep=keep))
    done = set(gone[: data.draw(st.integers(0, len(gone)))])

    def left(objects: Iterable[Stored]) -> tuple[Stored, ...]:
        return tuple(each for each in objects if each.name not in done)

    rest = replace(
        history,
        attempts=left(history.attempts),
        facts=left(history.facts),
        packages=left(history.packages),
    )
    assert done | set(names(retain(rest, keep=keep))) == set(gone)
