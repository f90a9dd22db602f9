"""Facts of a package in a place are its own; what holds in every place is gathered once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks import places
from binary_checks.errors import GatherError
from binary_checks.gather.companions import Shelf
from binary_checks.gather.facts import Facts
from binary_checks.gather.placed_facts import place_facts
from binary_checks.gather.settings import Settings
from binary_checks.model import InstallReport, Package
from binary_checks.model.places import Place, read_place
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON

LABELS = ("venv", "image:gone")


@pytest.fixture
def everywhere(tmp_path: Path) -> Facts:
    path = build_wheel(tmp_path, members={"demo.py": ""}, tags=PURE)
    return Facts(FileSource(path=path), Settings(python=PYTHON), Shelf(()))


def test_a_package_is_read_once_and_placed_in_each(
    everywhere: Facts, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {label: replace(everywhere.settings, place=read_place(label)) for label in LABELS}
    placed = place_facts(everywhere, named)
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
