"""Removing entries from a list leaves every other line unchanged."""

from __future__ import annotations

from itertools import combinations

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.known import remove_entries
from binary_checks.profile import line_of_table, read_known_list

HEAD = """\
# Ours. Ask in #release before you add to it.
issued = 2026-11-20   # by hand
"""
FIRST = """\
# why the first is here
# and more of it
[[known_problems]]  # one
check = "a"
reason = '''
[[known_problems]]
# no comment'''
"""
SECOND = """\
[[ known_problems ]]
check    =    "b"
reason = "is it \\"# [[known_problems]]\\"?"
# a comment below
"""
THIRD = """\
[[known_problems]]
check = "c"
reason = 'c'
"""
ASIDE = "# the next ones are for Windows\n"
LIST = f"{HEAD}\n{FIRST}\n{ASIDE}\n{SECOND}\n\n{THIRD}"


def edit(text: str, *gone: int) -> str:
    return remove_entries(text.encode(), gone, "k.toml").decode()


def test_an_entry_goes_with_its_comments_and_leaves_those_of_others() -> None:
    assert edit(LIST, 0) == f"{HEAD}\n{ASIDE}\n{SECOND}\n\n{THIRD}"
    assert edit(LIST, 1) == f"{HEAD}\n{FIRST}\n{ASIDE}\n{THIRD}"
    assert edit(LIST, 2) == f"{HEAD}\n{FIRST}\n{ASIDE}\n{SECOND}\n\n"
    assert edit(LIST, 0, 1, 2) == f"{HEAD}\n{ASIDE}\n"
    assert edit(LIST) == LIST
    windows = LIST.replace("\n", "\r\n")
    assert edit(windows, 1) == f"{HEAD}\n{FIRST}\n{ASIDE}\n{THIRD}".replace("\n", "\r\n")


def test_the_rest_is_what_it_was_whatever_goes() -> None:
    texts = [FIRST, SECOND, THIRD, "[[known_problems]]\ncheck='d'\nreason='\u2028\x85d'\n# end"]
    for separator in ("\n", "\n\n", "\n# aside\n\n"):
        whole = f"{HEAD}\n{separator.join(texts)}"
        entries = read_known_list(whole.encode(), "k").entries
        for size in range(5):
            for gone in combinations(range(4), size):
                left = read_known_list(edit(whole, *gone).encode(), "k").entries
                assert [*left] == [each for n, each in enumerate(entries) if n not in gone]


def test_a_list_without_lines_of_its_own_is_left_to_a_person() -> None:
    inline = "known_problems = [{check = 'c', reason = 'r'}]\n"
    assert edit(inline) != ""
    with pytest.raises(ProfileError, match=r"k\.toml: its entries do not begin with \[\["):
        edit(inline, 0)


def test_the_lines_of_entries_are_found() -> None:
    entries = read_known_list(LIST.encode(), "k.toml").entries
    assert [line_of_table(each.check) for each in entries] == [6, 14, 20]
