"""What a run installs beside a package answers for it what nobody has given."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import places
from binary_checks.checks.cuda.toolkits import family_member_missing
from binary_checks.errors import GatherError
from binary_checks.examination.facts import Facts
from binary_checks.examination.settings import RunSettings
from binary_checks.gather.companions import Companions
from binary_checks.model import (
    GivenFamilies,
    InstalledFolders,
    InstallReport,
    Linkage,
    Package,
    Problem,
    TargetSystem,
)
from binary_checks.places import FreshPlace, PlaceSettings
from binary_checks.sources.file import FileSource
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel
from fixtures.environments import running
from fixtures.installation import find_site, install_by_hand

NATIVE = "demo/_native.cpython-311-x86_64-linux-gnu.so"
ANY = ("py3-none-manylinux_2_17_x86_64",)


class HandMade(FreshPlace):
    """An environment into which wheels are unpacked, and no interpreter is asked."""

    wheels: tuple[Path, ...] = ()
    broken = ""
    installs = 0

    def _install(self, package: Package) -> InstallReport:
        type(self).installs += 1
        if self.broken:
            raise GatherError(self.broken)
        for wheel in self.wheels:
            install_by_hand(wheel, self.folder, rows=())
        return InstallReport(python="CPython 3.11", installer="hand")

    @property
    def installed(self) -> InstalledFolders:
        return InstalledFolders(site_packages=find_site(self.folder), prefix=self.folder)


Hand = type[HandMade]


def runtime(folder: Path, version: str = "1.0", *names: str) -> Path:
    library = build_elf(soname="libx.so.1", exports=tuple(map(ElfSymbol, names)))
    members = {"x/libx.so.1": library}
    return build_wheel(folder, name="x-runtime", version=version, members=members, tags=ANY)


def judged(folder: Path, *imports: str) -> Path:
    native = build_elf(
        needed=("libx.so.1",),
        runpath="$ORIGIN/../x",
        exports=(ElfSymbol("PyInit__native"),),
        imports=tuple(map(ElfSymbol, imports)),
    )
    members: dict[str, str | bytes] = {"demo/__init__.py": "", NATIVE: native}
    return build_wheel(folder / "dist", members=members, requires=("x-runtime",))


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> type[HandMade]:
    class OfThisTest(HandMade):
        pass

    def choose(package: Package, settings: PlaceSettings) -> HandMade:
        return OfThisTest(settings)

    monkeypatch.setattr(places, "choose_place", choose)
    return OfThisTest


def link(wheel: Path, *given: Path, static: bool = False) -> Linkage:
    settings = RunSettings() if static else running()
    facts = Facts(FileSource(path=wheel), settings, Companions(given))
    linkage = facts.get(Linkage)
    facts.close()
    return linkage


def resolve(linkage: Linkage) -> str:
    """What the one need came to, or else who may have it."""
    (edge,) = linkage.edges
    return (
        linkage.layout.shorten_label(edge.resolved)
        if edge.resolved
        else " ".join(edge.may_come_with)
    )


def test_a_library_that_was_installed_beside_is_found_there_with_the_symbols_that_it_has(
    tmp_path: Path, place: Hand
) -> None:
    wheel = judged(tmp_path, "x_run", "x_lost")
    place.wheels = (wheel, runtime(tmp_path, "1.0", "x_run"))
    linkage = link(wheel)
    assert resolve(linkage) == "wheel:x-runtime:x/libx.so.1"
    assert (linkage.requirements, linkage.unexplored) == ((), ())
    assert [item.name for item in linkage.unresolved] == ["x_lost"]
    assert place.installs == 1


def test_a_static_run_installs_nothing(tmp_path: Path, place: Hand) -> None:
    wheel = judged(tmp_path)
    place.wheels = (wheel, runtime(tmp_path))
    linkage = link(wheel, static=True)
    assert (resolve(linkage), linkage.requirements) == ("x-runtime", ("x-runtime",))
    assert place.installs == 0


def test_companions_that_answer_count_more_than_what_was_installed(
    tmp_path: Path, place: Hand
) -> None:
    wheel, given = judged(tmp_path, "x_run"), runtime(tmp_path / "given", "2.0", "x_run")
    place.wheels = (wheel, runtime(tmp_path, "1.0"))
    linkage = link(wheel, given)
    assert resolve(linkage) == "wheel:x-runtime:x/libx.so.1"
    assert linkage.unresolved == ()


def test_where_installing_fails_the_answer_stays_open(tmp_path: Path, place: Hand) -> None:
    place.broken = "the index is down"
    wheel = judged(tmp_path, "x_run")
    linkage = link(wheel)
    assert (resolve(linkage), linkage.requirements) == ("x-runtime", ("x-runtime",))
    assert [item.reason for item in linkage.unexplored] == ["libx.so.1 is not found"]
    assert place.installs == 1


def test_a_package_given_in_a_version_that_does_not_fit_is_replaced_and_told_of(
    tmp_path: Path, place: Hand
) -> None:
    native = build_elf(needed=("libx.so.1",), runpath="$ORIGIN/../x", imports=(ElfSymbol("x_run"),))
    wheel = build_wheel(tmp_path / "dist", members={NATIVE: native}, requires=("x-runtime>=2",))
    place.wheels = (wheel, runtime(tmp_path, "2.0", "x_run"))
    linkage = link(wheel, runtime(tmp_path / "given", "1.0"))
    assert (resolve(linkage), linkage.unresolved) == ("wheel:x-runtime:x/libx.so.1", ())
    assert linkage.refused == ("x-runtime 1.0, where x-runtime>=2 is required",)


def test_what_is_not_even_installed_is_missing(tmp_path: Path, place: Hand) -> None:
    wheel = judged(tmp_path)
    place.wheels = (wheel,)
    linkage = link(wheel)
    assert (resolve(linkage), linkage.requirements) == ("", ())


def family(folder: Path, *, whole: bool) -> Path:
    """Make a wheel with libnvrtc.so.13, which opens its built-in functions by their full name."""
    opener = build_elf(
        soname="libnvrtc.so.13",
        imports=(ElfSymbol("dlopen"),),
        read_only={".rodata": b"libnvrtc-builtins.so.13.2\0"},
    )
    members = {"x/libnvrtc.so.13": opener}
    if whole:
        members["x/libnvrtc-builtins.so.13.2"] = build_elf(soname="libnvrtc-builtins.so.13.2")
    return build_wheel(folder, name="nvidia-cuda-nvrtc", version="13.2", members=members, tags=ANY)


@pytest.mark.parametrize("whole", [True, False])
def test_the_family_of_an_installed_library_is_judged(
    tmp_path: Path, place: Hand, whole: bool
) -> None:
    native = build_elf(needed=("libnvrtc.so.13",), runpath="$ORIGIN/../x")
    wheel = build_wheel(tmp_path, members={NATIVE: native}, requires=("nvidia-cuda-nvrtc",))
    place.wheels = (wheel, family(tmp_path, whole=whole))
    facts = Facts(FileSource(path=wheel), running(), Companions(()))
    kinds = (Linkage, Package, GivenFamilies, TargetSystem)
    found = list(family_member_missing(*map(facts.get, kinds)))
    facts.close()
    sentences = [each.sentence for each in found if isinstance(each, Problem)]
    assert len(found) == len(sentences) == (not whole)
    for sentence in sentences:
        assert "libnvrtc.so.13 opens libnvrtc-builtins.so.13.2 at run time" in sentence
