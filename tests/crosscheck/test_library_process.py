"""The libraries run in a process of their own, whose crash is not ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from binary_checks.crosscheck.fact_tables import Library
from binary_checks.crosscheck.library_process import Libraries, LibraryAnswer
from binary_checks.crosscheck.opinion import TABLES, libraries_of
from binary_checks.model import Format
from fixtures.samples import FOLDER

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
