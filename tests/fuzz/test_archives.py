"""Archives as targets of the fuzzer: seeds are healthy; what installers read otherwise is red."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from fixtures.fuzz import installers
from fixtures.fuzz.installers import find_uv, install_with_uv, list_tree
from fixtures.fuzz.outcomes import Opinion
from fixtures.fuzz.target_zip import ask, find_problems
from fixtures.fuzz.zip_parts import take_apart
from fixtures.fuzz.zip_seeds import find_structures
from fixtures.fuzz.zip_structure import make_structure

SEEDS = {seed.name.partition(" ")[0]: seed for seed in find_structures(None)}
STORED = SEEDS["stored"]


@pytest.fixture
def no_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installers, "find_uv", lambda: None)  # a process, for the slow tests


def ask_about(content: bytes, folder: Path) -> Opinion:
    opinion = ask(content, False, folder)
    assert opinion is not None
    return opinion


@pytest.mark.usefixtures("no_uv")
@pytest.mark.parametrize("name", SEEDS)
def test_every_seed_is_healthy_and_is_written_as_it_was(name: str, tmp_path: Path) -> None:
    seed = SEEDS[name]
    assert not find_problems(seed, seed.content, tmp_path)
    assert ask_about(seed.content, tmp_path) == Opinion(accepted=True)
    assert take_apart(seed.content).write() == seed.content


def test_offsets_follow_from_the_parts() -> None:
    parts = take_apart(STORED.content)
    parts.prefix, parts.end64, parts.locator = b"prefix", {}, {}
    parts.members[0].comment = b"of a member"
    parts.comment = b"of the archive"
    with zipfile.ZipFile(io.BytesIO(parts.write())) as archive:
        assert archive.testzip() is None
        assert archive.comment == b"of the archive"
        assert archive.infolist()[0].comment == b"of a member"
        assert archive.infolist()[0].header_offset == 6


@pytest.mark.usefixtures("no_uv")
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (STORED.content[:-30], ("zipfile BadZipFile: File is not a zip file",)),
        (
            STORED.content.replace(b"x = 1", b"x = 2", 1),
            ("zipfile demo/__init__.py: wrong CRC", "pip BadZipFile: Bad CRC-32"),
        ),
    ],
    ids=["cut", "wrong CRC"],
)
def test_a_damaged_archive_is_red_here_and_refused_there(
    content: bytes, said: tuple[str, ...], tmp_path: Path
) -> None:
    assert find_problems(STORED, content, tmp_path)
    opinion = ask_about(content, tmp_path)
    assert not opinion.accepted
    assert all(words in opinion.said for words in said)


@pytest.mark.usefixtures("no_uv")
def test_readers_that_find_different_files_refuse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(installers, "list_with_zipfile", lambda _path: ("", {}))
    opinion = ask_about(STORED.content, tmp_path)
    assert opinion == Opinion(accepted=False, said="zipfile, pip find different files")


def test_a_number_makes_the_same_mutant_again() -> None:
    made = [make_structure(STORED, number) for number in range(50)]
    assert made == [make_structure(STORED, number) for number in range(50)]
    contents = {mutant.content for mutant in made}
    assert STORED.content not in contents
    assert len(contents) > 40
    assert all(mutant.damage for mutant in made)


def verify_that_silence_is_agreement(numbers: range, folder: Path) -> None:
    for number in numbers:
        mutant = make_structure(STORED, number)
        if not find_problems(STORED, mutant.content, folder):
            opinion = ask_about(mutant.content, folder)
            assert opinion.accepted or opinion.excused, (number, mutant.damage, opinion.said)


@pytest.mark.usefixtures("no_uv")
def test_what_pip_and_zipfile_read_differently_is_red(tmp_path: Path) -> None:
    verify_that_silence_is_agreement(range(250), tmp_path)


@pytest.mark.slow
def test_what_uv_reads_differently_is_red(tmp_path: Path) -> None:
    if (uv := find_uv()) is None:
        pytest.skip("there is no uv")
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(STORED.content)
    assert install_with_uv(uv, wheel, tmp_path / "uv", tmp_path / "cache") == ""
    assert {"lib/demo/__init__.py", "lib/demo/empty.txt"} <= set(list_tree(tmp_path / "uv"))
    verify_that_silence_is_agreement(range(250), tmp_path)
