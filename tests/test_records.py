"""The project's dataclass decorator does what the standard library's does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any

import pytest

from binary_checks import records


def _declare(dataclass: Callable[..., Any]) -> tuple[Any, Any, Any]:
    """The same three classes, by either decorator."""

    @dataclass(frozen=True, kw_only=True, slots=True, order=True)
    class Version:
        """A version."""

        major: int
        minor: int = 0
        label: str = field(default="", compare=False)

    @dataclass(frozen=True, kw_only=True, slots=True)
    class File:
        """A file."""

        path: str
        rows: list[int] = field(default_factory=list, hash=False)
        secret: str = field(default="s", repr=False)

        def __post_init__(self) -> None:
            if not self.path:
                raise ValueError("no path")

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Library(File):
        """A file of a kind."""

        version: Any = None
        index: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    return Version, File, Library


OURS = _declare(records.dataclass)
STANDARD = _declare(dataclasses.dataclass)


@records.dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """At the module's level, where pickle finds it."""

    name: str
    size: int = 0


def _do(action: Callable[[Any, Any, Any], Any], kinds: tuple[Any, Any, Any]) -> object:
    """What comes of it, or how it fails."""
    try:
        return action(*kinds)
    except Exception as error:
        return type(error), str(error).replace("_self", "self")


@pytest.mark.parametrize(
    "action",
    [
        lambda v, f, s: repr(v(major=1)),
        lambda v, f, s: repr(s(path="a", version=v(major=1, minor=2))),
        lambda v, f, s: v(major=1) == v(major=1, label="x"),
        lambda v, f, s: v(major=1) == v(major=2),
        lambda v, f, s: f(path="a") == s(path="a"),
        lambda v, f, s: (v(major=1) == 1, v(major=1) != 1),
        lambda v, f, s: sorted([v(major=2), v(major=1, minor=3), v(major=1)])[1].minor,
        lambda v, f, s: (
            v(major=1) < v(major=1),
            v(major=1) <= v(major=1),
            v(major=2) > v(major=1),
        ),
        lambda v, f, s: v(major=1) >= v(major=3),
        lambda v, f, s: v(major=1) < 1,
        lambda v, f, s: f(path="a") < f(path="b"),
        lambda v, f, s: len({v(major=1), v(major=1, label="x"), v(major=2)}),
        lambda v, f, s: hash(f(path="a", rows=[1])) == hash(f(path="a")),
        lambda v, f, s: v(1),
        lambda v, f, s: v(),
        lambda v, f, s: v(major=1, patch=2),
        lambda v, f, s: s(path="a", index={}),
        lambda v, f, s: f(path=""),
        lambda v, f, s: f(path="a").rows is f(path="a").rows,
        lambda v, f, s: s(path="a").index,
        lambda v, f, s: dataclasses.replace(v(major=1), minor=5).minor,
        lambda v, f, s: dataclasses.asdict(s(path="a", version=v(major=1))),
        lambda v, f, s: [(each.name, each.kw_only) for each in dataclasses.fields(s)],
        lambda v, f, s: (dataclasses.is_dataclass(v), dataclasses.is_dataclass(v(major=1))),
        lambda v, f, s: dataclasses.replace(s(path="a"), path="b", secret="t").secret,
        lambda v, f, s: setattr(v(major=1), "minor", 2),
        lambda v, f, s: delattr(v(major=1), "minor"),
        lambda v, f, s: copy.copy(v(major=1, label="x")).label,
        lambda v, f, s: copy.deepcopy(f(path="a", rows=[1])).rows,
        lambda v, f, s: (v.__doc__, v.__match_args__, v.__slots__),
    ],
)
def test_it_is_the_standard_one(action: Callable[[Any, Any, Any], Any]) -> None:
    assert _do(action, OURS) == _do(action, STANDARD)


@pytest.mark.parametrize("before", [0, 50], ids=["the first", "one of many"])
@pytest.mark.parametrize(
    "action",
    [
        lambda v, f, s: repr(s(path="a", version=v(major=1, minor=2))),
        lambda v, f, s: (f(path="a").rows, s(path="a").index),
        lambda v, f, s: f(path="a").rows is f(path="a").rows,
        lambda v, f, s: f(path=""),
        lambda v, f, s: v(1),
        lambda v, f, s: v(),
        lambda v, f, s: v(major=1, patch=2),
        lambda v, f, s: s(path="a", index={}),
    ],
)
def test_every_instance_is_made_alike(action: Callable[[Any, Any, Any], Any], before: int) -> None:
    ours, standard = _declare(records.dataclass), _declare(dataclasses.dataclass)
    for version, file, library in (ours, standard):
        for _ in range(before):
            assert version(major=1).minor == 0
            assert file(path="x").rows == library(path="y").rows
    assert _do(action, ours) == _do(action, standard)


def test_one_thread_after_the_other_looks_at_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    version, _, _ = _declare(records.dataclass)
    looks, found = [], []
    other = threading.Thread(target=lambda: found.append(dataclasses.fields(version)))
    standard = dataclasses.dataclass

    def look(**how: Any) -> Any:
        looks.append(how)
        if len(looks) == 1:
            other.start()
            other.join(0.2)  # it waits for us; else it would look too
        return standard(**how)

    monkeypatch.setattr(dataclasses, "dataclass", look)
    assert version(major=1, label="a") == version(major=1, label="b")
    other.join()
    assert len(looks) == 1
    assert found == [dataclasses.fields(version)]


def test_a_pickle_of_it_is_read() -> None:
    assert pickle.loads(pickle.dumps(Named(name="x", size=2))) == Named(name="x", size=2)


def test_what_is_not_frozen_is_left_to_the_standard_one() -> None:
    @records.dataclass
    class Counter:
        count: int = 0

    counter = Counter(3)
    counter.count += 1
    assert counter == Counter(4)
