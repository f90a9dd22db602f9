"""Text from a package never breaks a line, drives a terminal or commands a build service."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binary_checks.documents.facts import write_facts
from binary_checks.safe_text import cut, one_line
from fixtures.values import member, wheel

GITHUB = r"::(?:error|warning|notice|debug|group|endgroup|add-mask|set-output|set-env)(?: .*?)?::"
AZURE = r"##\[|##vso\["
OTHERS = r"##teamcity\[|section_(?:start|end):|travis_(?:fold|time):"
COMMANDS = re.compile(rf"\A\s*::|{GITHUB}|{AZURE}|{OTHERS}", re.IGNORECASE)
UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180e\u3164\ufe0f\uffa0\U000e0100"

PARTS = st.sampled_from(
    [
        *("::", ":", "#", "##", "[", "vso[", "error", "::error", "::Warning file=a", "teamcity["),
        *(" ", "a", "section_start:", "12:", "\r", "\x1b[31m", "\n", "\u2028", "\u202e"),
        *("\u200b", "\ud800", "\x0b", "\x0c", "\x85", "\ufeff", "\u2066", *UNSEEN),
    ]
)
HOSTILE = st.one_of(st.text(), st.lists(PARTS, max_size=12).map("".join))


def assert_harmless(line: str) -> None:
    kinds = {unicodedata.category(char) for char in line}
    assert kinds.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"}), line
    assert not set(line) & set(UNSEEN)
    assert len(line.splitlines()) < 2
    assert COMMANDS.search(line) is None, line


@given(HOSTILE)
@example("::error::")
@example("###[group]")
@example(":::error::x::error::")
def test_no_line_holds_what_a_terminal_or_a_build_service_obeys(text: str) -> None:
    line = one_line(text)
    assert_harmless(line)
    line.encode()  # an incomplete character cannot be encoded


@given(HOSTILE)
def test_to_escape_twice_is_to_escape_once(text: str) -> None:
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize(
    "text",
    [
        "demo/_native.cpython-311-x86_64-linux-gnu.so",
        "std::error_code::value",
        "dist/demo.whl::absolute-search-path",
        "müller/数.py",
        "#1 [a] ::debugging",
    ],
)
def test_common_text_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text


def test_a_line_is_cut_in_the_middle() -> None:
    line = f"check: demo.whl: {'a/' * 32_000}x.so: is wrong"
    shown = cut(line)
    assert len(shown) <= 500
    assert shown.startswith("check: demo.whl: a/a/")
    assert shown.endswith("x.so: is wrong")
    assert " characters ...] " in shown
    assert cut("short") == "short"


@given(HOSTILE)
def test_facts_as_json_command_nothing_and_lose_nothing(text: str) -> None:
    package = wheel(members=[member(f"a{text}")])
    lines = "".join(write_facts(package, "0" * 64, None, symbols=True)).splitlines()
    for line in lines:
        assert_harmless(line)
    members = json.loads("\n".join(lines))["members"]
    assert members[0]["path"] == f"a{text}"
