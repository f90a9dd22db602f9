"""A limit of ours that is reached is never green: what it hides may be a fault."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from fixtures.build_elf import ElfSymbol, build_elf
from tests.plugin.conftest import EXTENSION, Run, healthy, run_command

NAME = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"


def oversized(folder: Path) -> Path:
    """A library with an absolute search path, behind more notes than are read."""
    native = build_elf(exports=(ElfSymbol("PyInit__native"),), runpath="/tmp/build/lib")
    return healthy(folder, members={"demo/__init__.py": "", EXTENSION: hide(native)})


def hide(content: bytes) -> bytes:
    """The ELF file with 2 MiB of zeros in a PT_NOTE, of which 1 MiB is read."""
    place, entry, count = _program_headers(content)
    changed = bytearray(content)
    for start in range(place, place + entry * count, entry):
        if struct.unpack_from("<I", changed, start)[0] == 0x6474E551:  # PT_GNU_STACK says nothing
            struct.pack_into("<I4xQ16xQ", changed, start, 4, len(content), 2 << 20)
    return bytes(changed) + bytes(2 << 20)


def _program_headers(content: bytes) -> tuple[int, int, int]:
    (place,) = struct.unpack_from("<Q", content, 32)
    entry, count = struct.unpack_from("<HH", content, 54)
    return place, entry, count


def test_what_a_limit_hides_fails_every_check_of_it(pytester: pytest.Pytester, run: Run) -> None:
    oversized(pytester.path)
    result = run(NAME, "-k", "absolute-search-path or missing-library or text-relocations")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    reason = (
        f"{NAME}: {EXTENSION}: too large to inspect: it has 2097152 bytes in a PT_NOTE; at most "
        "1048576 are read; raise limit_factor in the profile, or accept the problem there"
    )
    assert f"absolute-search-path: {reason}" in result.outlines
    assert f"missing-library: {reason}" in result.outlines


def test_a_profile_that_raises_the_limit_sees_what_was_hidden(
    pytester: pytest.Pytester, run: Run
) -> None:
    oversized(pytester.path)
    (pytester.path / "own.toml").write_text("limit_factor = 4\n")
    result = run(NAME, "--binary-profile", "own.toml", "-k", "absolute-search-path")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "too large" not in result.stdout.str()
    result.stdout.fnmatch_lines([f"absolute-search-path: {NAME}: {EXTENSION}: *tmp/build*"])
    facts = run_command("inspect", NAME, "--json", "--binary-profile", "own.toml")
    assert json.loads(facts.stdout.str())["unread_objects"] == []


def test_a_profile_may_accept_what_is_too_large(pytester: pytest.Pytester, run: Run) -> None:
    oversized(pytester.path)
    (pytester.path / "own.toml").write_text(
        "[[known_problems]]\ncheck = 'absolute-search-path'\nmatch = 'too large to inspect'\n"
        "reason = 'its notes are generated'\n"
    )
    asked = "absolute-search-path or record-is-wrong"
    result = run(NAME, "--binary-profile", "own.toml", "-k", asked)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1, xfailed=1, deselected=result.parseoutcomes()["deselected"])


def test_facts_that_are_stated_tell_of_a_limit_too(pytester: pytest.Pytester, run: Run) -> None:
    oversized(pytester.path)
    facts = run_command("inspect", NAME, "--json")
    (pytester.path / "facts.json").write_text(facts.stdout.str() + "\n")
    result = run(NAME, "--binary-facts", "facts.json", "-k", "absolute-search-path")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"absolute-search-path: {NAME}: {EXTENSION}: too large to *"])


@pytest.mark.parametrize("factor", ["0", "1025", "-1", "1.5", "true", "'2'", "9" * 400])
def test_a_factor_that_is_none_is_a_usage_error(
    pytester: pytest.Pytester, run: Run, factor: str
) -> None:
    healthy(pytester.path)
    (pytester.path / "own.toml").write_text(f"limit_factor = {factor}\n")
    result = run(NAME, "--binary-profile", "own.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = (line for line in result.errlines if line)
    assert line.startswith("ERROR: profile own.toml:1: limit_factor: ")
