"""Facts are gathered by type, when they are asked for, once; a failure is remembered as well."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from binary_checks import places
from binary_checks.declaring import Gatherer, find_gatherers, gathers
from binary_checks.errors import CheckError, GatherError, NotApplicable, ProfileError, Unavailable
from binary_checks.examination.declarations import require_gatherable
from binary_checks.examination.facts import Facts, first_of
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.model import (
    CudaRequest,
    InstalledPackage,
    InstallReport,
    Linkage,
    Package,
    Place,
    ProbeReport,
    Wheel,
    read_place,
)
from binary_checks.places import PlaceSettings
from binary_checks.probes import load_readers
from binary_checks.profile import Profile
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, PYTHON, running
from tests.plugin.conftest import healthy


@dataclass(frozen=True, kw_only=True, slots=True)
class Colour:
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PaintReport(ProbeReport):
    colour: str


@gathers(PaintReport)
def paint(colour: Colour, package: Wheel | InstalledPackage, profile: Profile) -> PaintReport:
    return PaintReport(python=profile.source, colour=f"{colour.name} {package.name}")


Open = Callable[..., Facts]


@pytest.fixture
def open_facts(tmp_path: Path) -> Open:
    path = build_wheel(tmp_path, tags=PURE, members={"demo.py": ""})

    def open_with(*gatherers: Gatherer[..., Any]) -> Facts:
        own = {each.fact: each for each in gatherers}
        settings = running(gatherers=own)
        return Facts(FileSource(path=path), settings, Companions(()))

    return open_with


def test_what_a_gatherer_takes_is_said_by_the_types_of_its_parameters(open_facts: Open) -> None:
    mix = gathers(Colour)(lambda: Colour(name="red"))
    facts = open_facts(paint, mix)
    assert facts.get(PaintReport) == PaintReport(python="default", colour="red demo")


def test_each_is_called_once_and_only_when_it_is_asked_for_even_if_it_fails(
    open_facts: Open,
) -> None:
    called = []

    @gathers(Colour)
    def mix() -> Colour:
        called.append("mix")
        return Colour(name="red")

    facts = open_facts(paint, mix)
    facts.get(Package)
    assert called == []
    assert facts.get(PaintReport) is facts.get(PaintReport)
    assert called == ["mix"]

    @gathers(Colour)
    def fail() -> Colour:
        called.append("fail")
        raise GatherError("no paint")

    facts = open_facts(paint, fail)
    for _ in range(2):
        with pytest.raises(GatherError, match="no paint"):
            facts.get(PaintReport)
    assert called == ["mix", "fail"]


def test_a_kind_of_package_is_the_package(open_facts: Open) -> None:
    facts = open_facts()
    assert facts.get(Wheel) is facts.get(Package)
    with pytest.raises(NotApplicable, match="it is a wheel, not an installed package"):
        facts.get(InstalledPackage)
    assert first_of((InstalledPackage, Wheel), facts) is facts.get(Package)


def test_where_no_loader_is_simulated_the_package_alone_may_do(tmp_path: Path) -> None:
    """So that imports of pure wheels, and on systems that are not known, are judged too."""
    for tags in (PURE, ("cp313-cp313-linux_armv6l",), ("cp313-cp313-freebsd_14_2_release_amd64",)):
        path = build_wheel(tmp_path / tags[0], tags=tags, members={"demo.py": ""})
        facts = Facts(FileSource(path=path), running(), Companions(()))
        assert isinstance(first_of((Linkage, Package), facts), Wheel)


def test_a_request_that_the_profile_does_not_make_asks_for_nothing(open_facts: Open) -> None:
    assert open_facts().get(CudaRequest) == CudaRequest()


def test_what_nothing_gathers_and_what_needs_itself_are_errors_of_the_check(
    open_facts: Open,
) -> None:
    with pytest.raises(CheckError, match="nothing gathers Colour"):
        open_facts(paint).get(PaintReport)

    def brighten(colour: Colour) -> Colour:
        return colour

    vars(brighten)["__annotations__"] = {"colour": Colour}
    circle = gathers(Colour)(brighten)
    with pytest.raises(
        CheckError, match="<gatherer of Colour> depends on the fact that it gathers"
    ):
        open_facts(circle).get(Colour)


def test_a_place_costs_nothing_until_something_is_installed(
    open_facts: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "Popen", None)
    facts = open_facts()
    facts.get(Place)  # type: ignore[type-abstract]
    facts.close()


def test_two_gatherers_of_one_fact_are_refused() -> None:
    module = ModuleType("mine")
    module.one = gathers(Colour)(lambda: Colour(name="red"))  # type: ignore[attr-defined]
    module.two = gathers(Colour)(lambda: Colour(name="blue"))  # type: ignore[attr-defined]
    with pytest.raises(
        ProfileError, match="mine: a second function gathers the same fact: <gatherer of"
    ):
        find_gatherers([module])


@pytest.mark.parametrize("reader", list(load_readers()), ids=lambda reader: reader.__name__)
def test_every_probe_has_gatherers_of_facts_that_are_gathered(reader: ModuleType) -> None:
    gatherers = [*find_gatherers([reader]).values()]
    assert gatherers
    for gatherer in gatherers:
        assert issubclass(gatherer.fact, ProbeReport)
        require_gatherable(gatherer, {})


def test_a_static_run_loads_nothing_that_runs_packages(tmp_path: Path) -> None:
    path = healthy(tmp_path)
    code = (
        "import sys; from pathlib import Path\n"
        "from binary_checks.gather.companions import Companions\n"
        "from binary_checks.examination.facts import Facts\n"
        "from binary_checks.examination.settings import RunSettings\n"
        "from binary_checks.sources.file import FileSource\n"
        "from binary_checks.model import Linkage\n"
        f"facts = Facts(FileSource(path=Path({str(path)!r})), RunSettings(), Companions(()))\n"
        "facts.get(Linkage)\n"
        "print(*(name for name in sys.modules if name.startswith('binary_checks.p')))"
    )
    done = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert "binary_checks.packages.wheel" in done.stdout.split()
    running = ("binary_checks.places", "binary_checks.probes.")
    assert [name for name in done.stdout.split() if name.startswith(running)] == []


# Facts of a package in a place are its own; what holds in every place is gathered once.

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
