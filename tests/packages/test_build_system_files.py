"""Literals of CMake's and pkg-config's files are read, and what is hostile ends in one line."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.model import BuildFiles, PathRole
from binary_checks.packages.cpp_archive_files import (
    read_build_files,
)
from fixtures.cost.steps import count_steps

CONFIG = "share/cmake/Demo/DemoConfig.cmake"
SET = 'set_target_properties(demo PROPERTIES IMPORTED_LOCATION "{}")\n'


def read(code: str, *paths: str, top: str = "") -> BuildFiles:
    return read_build_files({CONFIG: code}, (CONFIG, *paths), top=top)


def locations(code: str, *paths: str, top: str = "") -> list[str]:
    """Where the code says that libraries lie."""
    named = read(code, *paths, top=top).paths
    return [each.path for each in named if each.role is PathRole.LOCATION]


def test_arguments_are_split_as_in_cmake() -> None:
    code = (
        "#[[ set(x)\n]] #[==[\n]] ]==]\n# a # b\n"
        "Set_Property(TARGET [=[a ]] b]=] PROPERTY IMPORTED_LOCATION\n"
        '"/opt/c d" # not this\n/opt/e)'
    )
    found = read(code).paths
    assert [(each.subject, each.path, each.line) for each in found] == [
        ("IMPORTED_LOCATION of a ]] b", "/opt/c", 5),
        ("IMPORTED_LOCATION of a ]] b", "/opt/e", 5),
    ]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("set(x", "line 1: a parenthesis has no end"),
        ('\nset("x)', "line 2: a text in quotes has no end"),
        ("set([[x)", "line 1: a bracket has no end"),
        ("set x", "line 1: a command without a parenthesis"),
        ("@VALUE@", "line 1: not a command: '@VALUE@'"),
    ],
)
def test_what_is_no_code_says_where(code: str, reason: str) -> None:
    (unread,) = read(code).unread
    assert (unread.file, unread.reason) == (CONFIG, reason)


@given(st.text(alphabet='()[]="\\#$ {}\na;if/', max_size=60))
def test_any_text_is_code_or_is_none(text: str) -> None:
    assert all("\n" not in each.reason for each in read(text).unread)


def test_paths_count_from_the_file() -> None:
    assert locations(SET.format("${CMAKE_CURRENT_LIST_DIR}/../../../lib/a.so")) == ["lib/a.so"]
    assert locations(SET.format("${CMAKE_CURRENT_LIST_DIR}/../../../../a.so")) == ["../"]


@pytest.mark.parametrize("variable", ["_IMPORT_PREFIX", "PACKAGE_PREFIX_DIR"])
def test_paths_count_from_the_prefix_of_cmake(variable: str) -> None:
    assert locations(SET.format(f"${{{variable}}}/lib/a.so"), "lib/a.so") == ["lib/a.so"]
    assert locations(SET.format(f"${{{variable}}}/lib/b.so"), "lib/a.so") == ["lib/b.so"]
    assert locations(SET.format(f"${{{variable}}}/a.so"), "share/a.so") == ["share/a.so"]


def test_the_folder_that_the_archive_packs_may_be_named() -> None:
    code = SET.format("${_IMPORT_PREFIX}/demo/lib/a.so")
    assert locations(code, "lib/a.so", top="demo") == ["lib/a.so"]
    assert locations(code, top="demo") == ["lib/a.so"]
    beside = SET.format("${_IMPORT_PREFIX}/../demo/lib/a.so")
    assert locations(beside, "lib/a.so", top="demo") == ["lib/a.so"]


@pytest.mark.parametrize(
    "around",
    ["if(WIN32)\n{}endif()", "foreach(a b)\n{}endforeach()", "function(f)\n{}endfunction()"],
)
def test_what_stands_under_a_condition_does_not_count(around: str) -> None:
    there = SET.format("/opt/a.so")
    assert locations(around.format(there)) == []
    assert locations(f"{around.format(there)}\n{SET.format('/opt/b.so')}") == ["/opt/b.so"]


def test_an_end_too_many_hides_nothing_below_it() -> None:
    assert locations("endif()\n" + SET.format("/opt/lib.so")) == ["/opt/lib.so"]


def test_generator_expressions_are_unwrapped() -> None:
    links = r"\$<LINK_ONLY:/opt/a.so>;$<BUILD_INTERFACE:/build/b.so>;$<LINK_ONLY:m>;${X}/c.so"
    found = read(f'set_target_properties(a PROPERTIES INTERFACE_LINK_LIBRARIES "{links}")').paths
    assert [(each.role, each.path) for each in found] == [(PathRole.LINK, "/opt/a.so")]


@pytest.mark.parametrize(
    "code", ['set(A_DIR "/opt/a" CACHE PATH "")', 'set(A_LIBS "${B}/lib")', "set(A_HINT /opt/a)"]
)
def test_variables_of_users_are_none_of_ours(code: str) -> None:
    assert read(code).paths == ()


def test_flags_for_the_abi_are_no_conditions() -> None:
    code = (
        'if(X STREQUAL "_GLIBCXX_USE_CXX11_ABI=0")\n set(F "-D_GLIBCXX_USE_CXX11_ABI=1")\nendif()'
    )
    (flag,) = read(code).abi_flags
    assert (flag.line, flag.value) == (2, True)


@pytest.mark.parametrize("size", [300, 600])
def test_values_are_looked_at_once(size: int) -> None:
    code = SET.format(";".join("${_IMPORT_PREFIX}/lib/a.so" for _ in range(size))) * 3
    assert count_steps(lambda: read(code, "lib/a.so")) < 2000 * size  # Windows: twice as many


def test_generator_expressions_without_an_end_are_searched_once() -> None:
    assert locations(SET.format("$<COMPILE_LANG" * 100_000 + ";/opt/a.so")) == ["/opt/a.so"]


@pytest.mark.skipif(os.name != "posix", reason="normalising a path takes steps there")
def test_a_file_in_deep_folders_is_compared_with_few_of_them() -> None:
    def steps(depth: int) -> int:
        path = "d/" * depth + "DemoConfig.cmake"
        return count_steps(lambda: read_build_files({path: SET.format("${_IMPORT_PREFIX}/a")}, ()))

    assert steps(800) == steps(400)


def test_pkg_config_names_where_it_counts_from() -> None:
    text = "prefix=${pcfiledir}/../..\nCflags: -I${prefix}/include -I/opt/x/include # no\n"
    found = read_build_files({"lib/pkgconfig/demo.pc": text}, ())
    assert [(each.line, each.path) for each in found.paths] == [
        (2, "include"),
        (2, "/opt/x/include"),
    ]


def test_a_value_of_pkg_config_that_explodes_is_not_read() -> None:
    text = "a=" + "/x" * 5000 + "\n" + "b=/" + "${a}" * 500_000 + "\n"
    found = read_build_files({"lib/d.pc": text}, ())
    assert [len(each.path) for each in found.paths] == [10_000]
    (unread,) = found.unread
    assert unread.reason == "the values of pkg-config have over 16777216 characters"


def test_the_values_of_pkg_config_files_together_have_a_bound() -> None:
    text = f"v={'x' * 9000}\n" + "w=${v}\n" * 4000
    found = read_build_files({"lib/a.pc": text, "lib/b.pc": text}, ())
    assert [each.file for each in found.unread] == ["lib/a.pc", "lib/b.pc"]
    assert all("over 16777216 characters" in each.reason for each in found.unread)


@pytest.mark.parametrize("size", [300, 600])
def test_variables_of_pkg_config_are_not_copied_for_every_field(size: int) -> None:
    text = "".join(f"v{number}=/x\n" for number in range(size)) + "Libs: -L/a\n" * size
    assert count_steps(lambda: read_build_files({"lib/a.pc": text}, ())) < 200 * size
