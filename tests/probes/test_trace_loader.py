"""The words of glibc's and musl's loaders become facts: which object lacks what."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from binary_checks.errors import NotApplicable
from binary_checks.model import (
    CleanSystem,
    Dependency,
    Linkage,
    LoaderAnswer,
    LoadFault,
    LoadFaultKind,
    Package,
)
from binary_checks.places import FreshPlace, HostPlace, PlaceSettings
from binary_checks.probes.trace_loader import choose_roots, read_answer, trace_loading
from fixtures.environments import PYTHON
from fixtures.values import elf_file, wheel

LIBRARY, VERSION, SYMBOL, REFUSED = LoadFaultKind
PRINTED = """\
\tlinux-vdso.so.1 (0x00007fa4015c4000)
\tlibX11.so.6 => not found
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fa4013e3000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007fa4015c6000)
"""
COMPLAINTS = """\
demo/a.so: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.36' not found (required by demo/a.so)
undefined symbol: undefd_thing\t(demo/b.so)
undefined symbol: arc4random, version GLIBC_2.36\t(demo/a.so)
symbol close, version LIBX_2 not defined in file libx.so.1 with link time reference\t(demo/a.so)
"""


def read(printed: str = "", complaints: str = "", lack: str = "") -> list[LoadFault]:
    answer = LoaderAnswer(path="demo/a.so", printed=printed, complaints=complaints, lack=lack)
    return list(read_answer(answer))


def test_all_that_glibc_misses_is_read_in_one_go() -> None:
    library, version, *symbols = read(PRINTED, COMPLAINTS)
    assert (library.kind, library.root, library.name) == (LIBRARY, "demo/a.so", "libX11.so.6")
    assert (version.kind, version.path) == (VERSION, "demo/a.so")
    assert (version.provider, version.version) == ("libc.so.6", "GLIBC_2.36")
    assert {(s.kind, s.path, s.name, s.version, s.provider) for s in symbols} == {
        (SYMBOL, "demo/b.so", "undefd_thing", "", ""),
        (SYMBOL, "demo/a.so", "arc4random", "GLIBC_2.36", ""),
        (SYMBOL, "demo/a.so", "close", "LIBX_2", "libx.so.1"),
    }


def test_all_that_musl_misses_is_read_in_one_go() -> None:
    said = (
        "Error loading shared library libz.so.1: No such file or directory (needed by demo/a.so)\n"
        "Error relocating demo/a.so: inflate: symbol not found\n"
    )
    library, symbol = read(complaints=said)
    assert (library.kind, library.path, library.name) == (LIBRARY, "demo/a.so", "libz.so.1")
    assert (symbol.kind, symbol.path, symbol.name) == (SYMBOL, "demo/a.so", "inflate")


def test_a_refusal_keeps_the_loaders_words() -> None:
    said = "demo/a.so: error while loading shared libraries: demo/b.so: invalid ELF header\n"
    (refused,) = read(complaints=said)
    assert (refused.kind, refused.path, refused.detail) == (
        REFUSED,
        "demo/b.so",
        "invalid ELF header",
    )
    assert read(complaints=COMPLAINTS, lack="hung 60 s") == []  # there is no answer


class Answering(HostPlace):
    """A clean system whose loader says one thing."""

    def __init__(self, printed: str, complaints: str = "") -> None:
        super().__init__(PlaceSettings(python=PYTHON, timeout=60))
        self._said = (printed, complaints)

    @property
    def system(self) -> CleanSystem:
        libc = "glibc 2.31"
        return CleanSystem(name="old", libc=libc, architecture="x86_64")

    def resolve(self, package: Package, paths: Sequence[str]) -> tuple[LoaderAnswer, ...]:
        printed, complaints = self._said
        answers = (LoaderAnswer(path=p, printed=printed, complaints=complaints) for p in paths)
        return tuple(answers)


NEEDED = (Dependency(name="libc.so.6"), Dependency(name="libX11.so.6"))
NATIVE = elf_file("demo/a.so", needed=NEEDED)


@pytest.mark.parametrize(
    ("printed", "complaints", "lack"),
    [
        ("", "bwrap: no permission\n", ": bwrap: no permission"),
        ("\tlibcap.so.2 => /lib/libcap.so.2 (0x1)\n", "", ""),  # of the program that confines it
    ],
)
def test_an_answer_of_something_else_is_none(printed: str, complaints: str, lack: str) -> None:
    package = wheel(objects=(NATIVE,))
    report = trace_loading(Answering(printed, complaints), package, package)
    assert report.untried == (
        ("demo/a.so", f"its loader does not list the libraries that it needs{lack}"),
    )


def test_each_object_is_loaded_and_what_lacks_is_attributed() -> None:
    package = wheel(objects=(NATIVE, elf_file("demo/arm.so", architecture="aarch64")))
    report = trace_loading(Answering(PRINTED), package, package)
    assert (report.system, report.loaded) == ("image old (glibc 2.31)", ("demo/a.so",))
    assert [(each.path, each.name) for each in report.faults] == [("demo/a.so", "libX11.so.6")]


def test_what_comes_with_another_object_is_loaded_with_that() -> None:
    closures = (("demo/a.so", ("demo/libown.so",)),)
    known = Linkage(target="", roots=("demo/a.so",), closures=closures)
    objects = ("demo/a.so", "demo/libown.so", "demo/plugin.so")
    assert list(choose_roots(objects, known)) == ["demo/a.so", "demo/plugin.so"]
    assert list(choose_roots(objects, wheel())) == sorted(objects)


def test_on_this_hosts_own_system_no_loader_is_asked() -> None:
    place = FreshPlace(PlaceSettings(python=PYTHON, timeout=60))
    package = wheel(objects=(elf_file(),))
    with pytest.raises(NotApplicable, match="only in an image: --binary-place image:REFERENCE"):
        trace_loading(place, package, package)
    with pytest.raises(NotApplicable, match="only in an image"):
        place.resolve(package, ())
