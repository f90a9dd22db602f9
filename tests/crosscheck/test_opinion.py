"""Every object of a package is read again; objects that no library could read are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from binary_checks import objects
from binary_checks.crosscheck import opinion as opinions
from binary_checks.crosscheck.fact_tables import Library
from binary_checks.crosscheck.library_process import Libraries, LibraryAnswer
from binary_checks.crosscheck.opinion import TABLES, libraries_of, seek_opinion
from binary_checks.errors import GatherError, Unavailable
from binary_checks.gather.rereading import gather_opinion
from binary_checks.model import Dependency, Format, SecondOpinion
from binary_checks.sources.file import FileSource
from binary_checks.trees import TarTree
from fixtures.build_conda import build_conda
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from fixtures.installation import find_site, install_by_hand
from fixtures.samples import FOLDER, HEALTHY_WHEEL
from fixtures.values import elf_file

ELF = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def seek(path: Path) -> SecondOpinion:
    source = FileSource(path=path)
    return gather_opinion(source.read(objects).package, source)


@pytest.fixture
def pyelftools_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask the library that is loaded in no time."""
    elf = TABLES[Format.ELF]
    alone = replace(elf, libraries=elf.libraries[:1])
    monkeypatch.setattr(opinions, "TABLES", {Format.ELF: alone})


def test_the_objects_of_a_wheel_are_read_by_two_libraries_each() -> None:
    opinion = seek(HEALTHY_WHEEL)
    assert [name.partition(" ")[0] for name in opinion.libraries] == ["LIEF", "pyelftools"]
    assert opinion.objects == 2
    assert opinion.compared == 2 * 2 * len(TABLES[Format.ELF].facts)
    assert opinion.disagreements == opinion.missing == ()


def test_each_format_is_read_by_its_own_libraries(tmp_path: Path) -> None:
    members = {
        "demo/a.so": (FOLDER / "elf/plain.so").read_bytes(),
        "demo/b.so": (FOLDER / "macho/universal2.dylib").read_bytes(),
        "demo/c.dll": (FOLDER / "pe/delayed.dll").read_bytes(),
        "demo/d.fatbin": b"\x50\xed\x55\xba" + bytes(60),
    }
    opinion = seek(build_wheel(tmp_path, members=members))
    names = [name.partition(" ")[0] for name in opinion.libraries]
    assert names == ["LIEF", "macholib", "pefile", "pyelftools"]
    assert opinion.objects == 4  # two slices
    assert opinion.disagreements == opinion.missing == ()


def test_what_a_library_does_not_parse_is_missing_and_the_others_are_heard(tmp_path: Path) -> None:
    members = {"demo/a.dylib": (FOLDER / "macho/universal2_64.dylib").read_bytes()}
    opinion = seek(build_wheel(tmp_path, members=members))
    (missing,) = opinion.missing
    assert missing.path.endswith("site-packages/demo/a.dylib")
    assert missing.library.partition(" ")[0] == "LIEF"
    assert missing.reason == "UnparsedError: it does not parse the file"
    assert [name.partition(" ")[0] for name in opinion.libraries] == ["macholib"]


def test_a_library_that_is_not_installed_is_missing_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elf = TABLES[Format.ELF]
    pyelftools, lief = elf.libraries
    known = (pyelftools, replace(lief, distribution="no-such-thing"))
    monkeypatch.setattr(opinions, "TABLES", {Format.ELF: replace(elf, libraries=known)})
    members = {"demo/a.so": build_elf(soname="a.so"), "demo/b.so": build_elf(soname="b.so")}
    opinion = seek(build_wheel(tmp_path, members=members))
    (missing,) = opinion.missing
    assert (missing.path, missing.library) == ("", "LIEF")
    assert missing.reason == "not installed; install binary-checks[crosscheck]"
    assert opinion.objects == 2
    none = tuple(replace(each, distribution=f"no-{each.name}") for each in elf.libraries)
    monkeypatch.setattr(opinions, "TABLES", {Format.ELF: replace(elf, libraries=none)})
    with pytest.raises(Unavailable, match="unavailable: pyelftools: not installed"):
        seek(build_wheel(tmp_path, members=members))


class Slow(Libraries):
    """Libraries among which LIEF never answers."""

    def ask(self, library: Library, path: Path) -> LibraryAnswer:
        if library.name == "LIEF":
            return LibraryAnswer(library="LIEF", reason="no answer within 60 s", late=True)
        return super().ask(library, path)


def test_a_library_that_takes_too_long_again_and_again_is_not_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "object"
    place.write_bytes(build_elf())
    items = [elf_file(path=f"demo/{number}.so") for number in range(9)]
    with closing(Slow(tmp_path)) as libraries:
        opinion = seek_opinion(items, ((item.path, place) for item in items), libraries)
    reasons = [each.reason for each in opinion.missing if each.library == "LIEF"]
    assert (
        reasons
        == ["not asked any more after 3 files without an answer"] + ["no answer within 60 s"] * 3
    )
    assert opinion.objects == 9


def test_what_we_misread_is_a_disagreement_with_its_file(tmp_path: Path) -> None:
    source = FileSource(path=build_wheel(tmp_path, members={ELF: build_elf(needed=("libc.so.6",))}))
    package = source.read(objects).package
    needed = (Dependency(name="libm.so.6"),)
    mistaken = replace(package, objects=(replace(package.objects[0], needed=needed),))
    found = gather_opinion(mistaken, source).disagreements
    assert {(each.path, each.fact) for each in found} == {(package.layout.place(ELF), "needed")}
    assert {(each.ours, each.theirs) for each in found} == {("libm.so.6", "libc.so.6")}
    assert [each.library.partition(" ")[0] for each in found] == ["pyelftools", "LIEF"]


def test_a_package_without_objects_has_nothing_to_ask_about(tmp_path: Path) -> None:
    assert seek(build_wheel(tmp_path, members={"demo/__init__.py": ""})) == SecondOpinion()


@pytest.mark.usefixtures("pyelftools_alone")
def test_an_installed_package_is_read_where_it_lies(tmp_path: Path) -> None:
    site, script = find_site(tmp_path), tmp_path / "bin/tool"
    script.parent.mkdir()
    script.write_bytes(build_elf(soname="tool"))
    wheel = build_wheel(tmp_path / "dist", members={"demo/a.so": build_elf(soname="a.so")})
    row = Path(os.path.relpath(script, site)).as_posix()
    found = install_by_hand(wheel, tmp_path, rows=[f"{row},,"])
    package = found.read(objects).package
    opinion = gather_opinion(package, found)
    assert (opinion.objects, opinion.disagreements, opinion.missing) == (2, (), ())
    (site / "demo/a.so").unlink()
    (missing,) = gather_opinion(package, found).missing
    assert package.layout.shorten(missing.path) == "demo/a.so"
    assert missing.reason == "it no longer exists"


@pytest.mark.usefixtures("pyelftools_alone")
def test_objects_that_stream_by_are_read_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {f"lib/lib{name}.so": build_elf(soname=f"lib{name}.so") for name in "cab"}
    source = FileSource(path=build_conda(tmp_path, members=members, suffix=".tar.bz2"))
    package = source.read(objects).package
    with closing(source.open()) as tree:
        assert isinstance(tree, TarTree)
        tree.entries()
        # for each of these, everything before it would be unpacked
        monkeypatch.setattr(tree, "pieces", None)
        opinion = gather_opinion(package, SimpleNamespace(open=lambda: tree))
    assert (opinion.objects, opinion.disagreements, opinion.missing) == (3, (), ())


def test_of_two_members_at_one_place_nobody_knows_which_was_read(tmp_path: Path) -> None:
    source = FileSource(path=build_wheel(tmp_path, members={ELF: build_elf()}))
    package = source.read(objects).package
    twice = tuple(each for member in package.members for each in (member, member))
    with pytest.raises(Unavailable, match="pyelftools and LIEF: 2 members are installed there"):
        gather_opinion(replace(package, members=twice), source)


def test_where_there_is_no_interpreter_to_start_it_is_nobodys_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    with pytest.raises(GatherError, match="cannot be read again: No such file"):
        seek(HEALTHY_WHEEL)


# The libraries run in a process of their own, whose crash is not ours.

PLAIN = FOLDER / "elf" / "plain.so"
Ask = Callable[[str], LibraryAnswer]


@pytest.fixture
def libraries(tmp_path: Path) -> Iterator[Libraries]:
    with closing(Libraries(tmp_path)) as asked:
        yield asked


@pytest.fixture
def ask(libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return a function that asks a library without facts, whose look has a given body."""
    folder = tmp_path / "search"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def ask(body: str) -> LibraryAnswer:
        name = f"library_{len(list(folder.iterdir()))}"
        (folder / f"{name}.py").write_text(f"def look(path):\n    {body}\n")
        made = Library(
            name="Made",
            distribution="packaging",
            look=import_module(name).look,
        )
        return libraries.ask(made, PLAIN)

    return ask


def test_a_library_answers_with_its_version_and_a_damaged_file_is_its_problem_alone(
    libraries: Libraries, tmp_path: Path
) -> None:
    for library in libraries_of(Format.ELF):
        answer = libraries.ask(library, PLAIN)
        assert answer.library.startswith(f"{library.name} ")
        assert answer.reading[""]["needed"] == ["libc.so.6"]
        assert not answer.reason
    damaged = tmp_path / "damaged"
    damaged.write_bytes(PLAIN.read_bytes()[:100])
    pyelftools, lief = libraries_of(Format.ELF)
    assert libraries.ask(pyelftools, damaged).reason
    assert isinstance(libraries.ask(lief, damaged), LibraryAnswer)


def test_a_crash_is_named_and_the_next_question_is_answered(ask: Ask) -> None:
    crashed = ask("import ctypes; ctypes.string_at(0)")
    assert not crashed.reading
    assert "crashed" in crashed.reason or "exit status" in crashed.reason
    assert ask("return {'': {}}").reading == {"": {}}


@pytest.mark.slow
def test_what_never_answers_is_ended(ask: Ask, libraries: Libraries) -> None:
    assert ask("return {'': {}}").reading == {"": {}}
    libraries.patience = 1
    assert ask("import time; time.sleep(600)").reason == "no answer within 1 s"
    libraries.patience = 60
    assert ask("return {'': {}}").reading == {"": {}}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux keeps the limit of memory")
def test_what_takes_too_much_memory_is_no_answer(ask: Ask) -> None:
    answer = ask("return {str(len(bytearray(64 << 30))): {}}")
    assert answer.reason == "it takes too much memory"


def test_an_exception_is_one_line_of_the_librarys_own_words(ask: Ask) -> None:
    answer = ask("raise ValueError('a\\nb\\x1b[31m')")
    assert answer.reason == "ValueError: a b\\x1b[31m"
    assert answer.library.startswith("Made ")


def test_what_a_library_prints_is_no_answer(ask: Ask) -> None:
    answer = ask("import os; os.write(1, b'{}\\n'); print('{}'); return {'': {}}")
    assert answer.reading == {"": {}}


def test_a_library_that_is_not_installed_is_absent(libraries: Libraries) -> None:
    gone = Library(
        name="Gone",
        distribution="no-such-thing",
        look=TABLES[Format.ELF].libraries[0].look,
    )
    answer = libraries.ask(gone, PLAIN)
    assert answer.absent
    assert answer.reason == "not installed"


def test_nothing_is_imported_from_the_current_folder(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name in ("lief", "elftools", "json", "sitecustomize"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(here)
    monkeypatch.setenv("PYTHONPATH", str(here))
    monkeypatch.setattr(sys, "path", ["", str(here), *sys.path])
    assert all(libraries.ask(each, PLAIN).reading for each in libraries_of(Format.ELF))
    assert not (tmp_path / "ran").exists()


def test_none_of_the_libraries_is_loaded_where_nobody_asks() -> None:
    loaded = "import sys, binary_checks.gather.rereading, binary_checks.plugin; print(sorted("
    loaded += "{'elftools', 'lief', 'macholib', 'pefile'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, check=True)
    assert done.stdout.split() == [b"[]"]
