"""Facts of a package in a place are its own; what holds in every place is gathered once."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import places
from binary_checks.errors import GatherError, Unavailable
from binary_checks.examination.facts import Facts
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.model import InstallReport, Package, Place, read_place
from binary_checks.places import PlaceSettings
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON

LABELS = ("venv", "image:gone")


@pytest.fixture
def everywhere(tmp_path: Path) -> Facts:
    path = build_wheel(tmp_path, members={"demo.py": ""}, tags=PURE)
    settings = tuple(
        PlaceSettings(name=read_place(label), python=PYTHON, timeout=60) for label in LABELS
    )
    return Facts(FileSource(path=path), RunSettings(places=settings), Companions(()))


def test_a_package_is_read_once_and_placed_in_each(
    everywhere: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    placed = everywhere.in_places
    assert [facts.place for facts in placed.values()] == list(LABELS)
    packages = {id(facts.get(Package)) for facts in (everywhere, *placed.values())}
    assert len(packages) == 1
    kinds = [type(facts.get(Place)) for facts in placed.values()]  # type: ignore[type-abstract]
    assert kinds == [places.PLACES[0], places.ImagePlace]
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GatherError, match="image:gone: there is no podman and no docker here"):
        placed["image:gone"].get(InstallReport)
    assert placed["image:gone"].system == ""
    assert everywhere.place == everywhere.system == ""
    everywhere.close()


def test_what_is_asked_of_the_package_is_that_of_the_first_place_that_has_it(
    everywhere: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = everywhere.in_places.values()
    assert everywhere.get(Place) is first.get(Place)  # type: ignore[type-abstract]
    monkeypatch.setattr(first, "get", refuse)
    assert everywhere.get(Place) is last.get(Place)  # type: ignore[type-abstract]
    everywhere.close()


def refuse(kind: type) -> None:
    raise Unavailable(f"no {kind.__name__}")
