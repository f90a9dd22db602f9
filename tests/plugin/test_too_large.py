"""A limit of ours that is reached is never green: what it hides may be a fault."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.plugin.conftest import Run, healthy, run_command

TAG = "cp311-cp311-macosx_11_0_x86_64"
NAME = f"demo-1.0-{TAG}.whl"
EXTENSION = "demo/_native.cpython-311-darwin.so"
SAMPLE = Path(__file__).parents[2] / "fixtures/samples/macho/extension.so"
RPATH, ABSOLUTE = b"@loader_path/../demo.dylibs", b"/tmp/build/lib"
NOTE = 0x31  # LC_NOTE, which loaders skip
FILLED = 17 << 20  # bytes


def oversized(folder: Path) -> Path:
    """A module with an absolute search path, with more load commands than are read."""
    native = SAMPLE.read_bytes().replace(RPATH, ABSOLUTE.ljust(len(RPATH), b"\0"))
    members = {"demo/__init__.py": "", EXTENSION: hide(native)}
    return healthy(folder, tags=(TAG,), members=members)


def hide(content: bytes) -> bytes:
    """The Mach-O file with a load command of 17 MiB around all its bytes; 16 MiB are read."""
    count, size = struct.unpack_from("<II", content, 16)
    end = 32 + size
    assert not any(content[end : end + 8])  # linkers leave room
    changed = bytearray(content.ljust(end + FILLED, b"\0"))
    struct.pack_into("<II", changed, 16, count + 1, size + FILLED)
    struct.pack_into("<II", changed, end, NOTE, FILLED)
    return bytes(changed)


def test_what_a_limit_hides_fails_every_check_of_it(pytester: pytest.Pytester, run: Run) -> None:
    oversized(pytester.path)
    result = run(NAME, "-k", "absolute-search-path or missing-library or text-relocations")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    reason = (
        f"{NAME}: {EXTENSION}: too large to inspect: it has 17826856 bytes of load commands; at "
        "most 16777216 are read"
    )
    assert f"absolute-search-path: {reason}" in result.outlines
    assert f"missing-library: {reason}" in result.outlines
    fixes = [line for line in result.outlines if line.startswith("  fix: ")]
    assert set(fixes) == {"  fix: Raise limit_factor in the profile, or accept the problem there."}


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


def test_facts_that_are_stated_tell_of_a_limit_too(pytester: pytest.Pytester, run: Run) -> None:
    oversized(pytester.path)
    facts = run_command("inspect", NAME, "--json")
    (pytester.path / "facts.json").write_text(facts.stdout.str() + "\n")
    result = run(NAME, "--binary-facts", "facts.json", "-k", "absolute-search-path")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([f"absolute-search-path: {NAME}: {EXTENSION}: too large to *"])
