"""What makes a library easier to attack on Windows is told, and what cannot be attacked is not."""

from __future__ import annotations

from typing import Any

import pytest

from binary_checks.checks import windows as mitigations
from binary_checks.model import Dependency, Kind, Level, NotInspected, Problem
from fixtures.values import only, pe_file, symbols

CODE: dict[str, Any] = {"needed": (Dependency(name="KERNEL32.dll"),)}
ADVICE = (
    "bugs in the whole process are easier to exploit; link it with a newer linker, or with these "
    "flags"
)


@pytest.mark.parametrize(
    ("fields", "lacking"),
    [
        ({"dll_characteristics": 0}, "DYNAMIC_BASE (ASLR), HIGH_ENTROPY_VA, NX_COMPAT"),
        ({"dll_characteristics": 0x120}, "DYNAMIC_BASE (ASLR)"),
        ({"dll_characteristics": 0x140}, "HIGH_ENTROPY_VA"),
        ({"dll_characteristics": 0x60}, "NX_COMPAT"),
        ({"dll_characteristics": 0x40, "architecture": "i686"}, "NX_COMPAT"),
        ({"characteristics": 0x2023}, "the relocations that DYNAMIC_BASE (ASLR) needs"),
        (
            {"dll_characteristics": 0x120, "needed": (), "exports": symbols("run")},
            "DYNAMIC_BASE (ASLR)",
        ),
        (
            {"kind": Kind.EXECUTABLE, "dll_characteristics": 0x120, "needed": ()},
            "DYNAMIC_BASE (ASLR)",
        ),
    ],
)
def test_mitigations_that_are_off_are_told(fields: dict[str, Any], lacking: str) -> None:
    library = pe_file(**{**CODE, **fields})
    sentence = f"is linked without {lacking}: {ADVICE}"
    assert list(mitigations.missing_mitigation(library)) == [
        Problem(path=library.path, sentence=sentence, level=Level.WARNING)
    ]


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({"dll_characteristics": 0x120}, Level.ERROR),
        ({"dll_characteristics": 0x140}, Level.WARNING),
        ({"dll_characteristics": 0x160, "characteristics": 0x2023}, Level.ERROR),
    ],
)
def test_windows_on_arm_loads_nothing_without_aslr(fields: dict[str, int], level: Level) -> None:
    library = pe_file(**{**CODE, "architecture": "aarch64", **fields})
    problem = only(Problem, mitigations.missing_mitigation(library))
    assert problem.level is level
    assert ("Windows on ARM does not load it" in problem.sentence) == (level is Level.ERROR)


@pytest.mark.parametrize(
    "fields",
    [
        CODE,
        {**CODE, "dll_characteristics": 0x140, "architecture": "i686"},
        {**CODE, "dll_characteristics": 0, "managed": True},
        {"dll_characteristics": 0},  # nothing but resources
        {**CODE, "dll_characteristics": 0, "kind": Kind.DEBUG},
    ],
)
def test_what_has_them_or_has_no_code_is_left_alone(fields: dict[str, Any]) -> None:
    assert list(mitigations.missing_mitigation(pe_file(**fields))) == []


def test_a_writable_executable_section_is_told_by_its_name() -> None:
    packed = pe_file(writable_executable=("UPX0", "UPX1"))
    assert list(mitigations.writable_executable_section(packed)) == [
        "has sections that are writable and executable: UPX0, UPX1"
    ]
    assert list(mitigations.writable_executable_section(pe_file())) == []


UNKNOWN = "is signed in a way that this version cannot verify"


@pytest.mark.parametrize(
    ("signed", "matches", "found"),
    [
        (True, False, ["does not match its Authenticode signature: it was changed after signing"]),
        (True, None, [NotInspected(sentence=UNKNOWN)]),
        (True, True, []),
        (False, None, []),
    ],
)
def test_a_change_after_signing_is_told(
    signed: bool, matches: bool | None, found: list[object]
) -> None:
    library = pe_file(signed=signed, signature_matches=matches)
    assert list(mitigations.broken_signature(library)) == found
