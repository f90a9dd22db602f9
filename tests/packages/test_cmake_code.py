"""CMake's code is read as CMake reads it, never run, and what is hostile in it ends in one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binary_checks.cmake_code import named_paths
from binary_checks.cmake_code.language import Block, CmakeCommand, CmakeSyntaxError, parse
from binary_checks.cmake_code.lost_headers import TooManyMarks, condense, find_lost
from binary_checks.cmake_code.named_paths import read_build_files
from binary_checks.cmake_code.pkg_config_files import PkgConfigFiles
from binary_checks.model.cmake import BuildFiles, PathRole
from fixtures.growth.steps import count_steps

CONFIG = "share/cmake/Demo/DemoConfig.cmake"


def follow(code: str, *paths: str, texts: dict[str, str] | None = None) -> BuildFiles:
    every = {CONFIG: code, **(texts or {})}
    return read_build_files(every, {"Demo": CONFIG}, (*every, *paths), system="linux")


def location(code: str, *paths: str, texts: dict[str, str] | None = None) -> list[str]:
    """Where the code says that the library ``demo`` lies, and whether that is certain."""
    named = follow(code, *paths, texts=texts).paths
    return [
        f"{each.path}{'' if each.certain else ' perhaps'}"
        for each in named
        if each.role is PathRole.LOCATION
    ]


SET = 'set_target_properties(demo PROPERTIES IMPORTED_LOCATION "{}")\n'


def test_arguments_are_split_as_in_cmake() -> None:
    (command,) = parse('Set(x "a b;c" [=[ ]] ]=] d\\ e -D"f g" (h) # not this\n)')
    assert isinstance(command, CmakeCommand)
    assert command.name == "set"
    texts = ["x", "a b;c", " ]] ", "d\\ e", '-D"f g"', "(", "h", ")"]
    assert [each.text for each in command.arguments] == texts


def test_comments_may_have_several_lines() -> None:
    assert parse("#[[ set(x)\n]] #[==[\n]] ]==]\n# a # b\n") == ()


def test_blocks_lie_within_each_other() -> None:
    (block,) = parse("if(a)\n foreach(b c)\n  d()\n endforeach()\nelseif(e)\nelse()\n f()\nendif()")
    assert isinstance(block, Block)
    assert [each.head.name for each in block.branches] == ["elseif", "else"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("set(x", "line 1: a parenthesis has no end"),
        ('\nset("x)', "line 2: a text in quotes has no end"),
        ("set([[x)", "line 1: a bracket has no end"),
        ("if(x)\nset(y)", "a block has no endif()"),
        ("endif()", "line 1: endif() ends no block"),
        ("set x", "line 1: a command without a parenthesis"),
        ("@VALUE@", "line 1: no command begins so: '@VALUE@'"),
        ("if(a)\n" * 60, "more than 50 blocks lie within each other"),
    ],
)
def test_what_is_no_code_says_where(code: str, reason: str) -> None:
    with pytest.raises(CmakeSyntaxError) as caught:
        parse(code)
    assert str(caught.value) == reason


@given(st.text(alphabet='()[]="\\#$ {}\na;if', max_size=60))
def test_any_text_is_code_or_is_none(text: str) -> None:
    try:
        parse(text)
    except CmakeSyntaxError as error:
        assert "\n" not in str(error)


def test_paths_count_from_the_file() -> None:
    code = 'get_filename_component(P "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)\n'
    assert location(code + SET.format("${P}/lib/libdemo.so")) == ["lib/libdemo.so"]


def test_files_are_included_and_packages_found() -> None:
    texts = {
        "share/cmake/Demo/a.cmake": SET.format("${CMAKE_CURRENT_LIST_DIR}/a.so"),
        "lib/cmake/other/other-config.cmake": SET.format("/../${CMAKE_CURRENT_LIST_DIR}/b.so"),
    }
    code = "include(${CMAKE_CURRENT_LIST_DIR}/a.cmake)\nfind_dependency(Other)\n"
    packages = {"Demo": CONFIG, "other": "lib/cmake/other/other-config.cmake"}
    found = read_build_files({CONFIG: code, **texts}, packages, (CONFIG, *texts))
    rows = [(each.path, each.reached) for each in found.paths]
    assert ("share/cmake/Demo/a.so", ("Demo",)) in rows
    assert any(reached == ("Demo", "other") for _, reached in rows)


def test_loops_macros_and_globs_are_followed() -> None:
    code = """
macro(put name)
  set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/${ARGN}")
endmacro()
foreach(each IN ITEMS a b)
  put(${each} ${each}.so)
endforeach()
file(GLOB files "${CMAKE_CURRENT_LIST_DIR}/*.txt")
foreach(each IN LISTS files)
  set_target_properties(x PROPERTIES IMPORTED_LOCATION "${each}")
endforeach()
"""
    folder = "share/cmake/Demo"
    assert location(code, f"{folder}/c.txt") == [f"{folder}/{n}" for n in ("a.so", "b.so", "c.txt")]


def test_what_depends_on_the_user_is_not_certain() -> None:
    code = """
set(P "${CMAKE_CURRENT_LIST_DIR}")
if(DEMO_OTHER)
  set(P "/other")
endif()
"""
    assert location(code + SET.format("${P}/lib.so")) == []
    either = "if(DEMO_OTHER)\n{}else()\n{}endif()"
    here = SET.format("${CMAKE_CURRENT_LIST_DIR}/a.so")
    assert location(either.format(here, "")) == ["share/cmake/Demo/a.so perhaps"]


def test_behind_the_end_nothing_is_come_to() -> None:
    there = SET.format("${CMAKE_CURRENT_LIST_DIR}/a.so")
    assert location(f"return()\n{there}") == []
    assert location(f'message(FATAL_ERROR "no")\n{there}') == []
    assert location(f"if(DEMO_OTHER)\n return()\nendif()\n{there}") == ["share/cmake/Demo/a.so"]


@pytest.mark.parametrize(
    "code",
    [
        "include(${CMAKE_CURRENT_LIST_FILE})",
        "macro(a)\n a()\n a()\nendmacro()\na()",
        "function(a)\n b()\nendfunction()\nfunction(b)\n a()\nendfunction()\na()",
        "set(a x)\n" + "set(a ${a}${a})\n" * 200,
        "set(l " + "x " * 3000 + ")\n" + "foreach(a ${l})\n" * 5 + "b()\n" + "endforeach()\n" * 5,
        "if(a)\n" + "set(x y)\n" * 1000 + "endif()\n" + "if(b)\nendif()\n" * 20000,
        "while(1)\n set(a b)\nendwhile()",
        "if(" + "NOT " * 900 + "a)\nendif()",
        "if(" + "( " * 400 + ")" * 400 + ")\nendif()",
        'set(a "${${${${${${${${${${a}}}}}}}}}}")',
        "set(a " + "x" * 60_000 + ")\nset(b " + "${a} " * 3000 + ")",
        "set(a " + "x" * 60_000 + ")\n" + "list(APPEND b ${a})\n" * 3000,
        "if(a)\n" + "elseif(a)\n" * 3000 + "endif()",
    ],
)
def test_code_that_never_ends_is_given_up(code: str) -> None:
    assert follow(code).abi_flags == ()


def test_too_much_code_is_not_inspected() -> None:
    found = follow("macro(a)\n a()\nendmacro()\na()")
    (unread,) = found.unread
    assert unread.reached
    assert unread.reason == "more than 40 files and macros lie within each other"


def test_flags_for_the_abi_are_no_conditions() -> None:
    code = (
        'if(X STREQUAL "_GLIBCXX_USE_CXX11_ABI=0")\n set(F "-D_GLIBCXX_USE_CXX11_ABI=1")\nendif()'
    )
    (flag,) = follow(code).abi_flags
    assert (flag.line, flag.value) == (2, True)


def test_pkg_config_names_where_it_counts_from() -> None:
    text = "prefix=${pcfiledir}/../..\nCflags: -I${prefix}/include -I/opt/x/include # no\n"
    files = PkgConfigFiles()
    files.read("lib/pkgconfig/demo.pc", text)
    assert [(each.line, each.path) for each in files.paths] == [
        (2, "include"),
        (2, "/opt/x/include"),
    ]


def test_a_header_is_condensed_to_its_directives() -> None:
    text = b"/* #if x */ #if 1\r\n # include <a.h> // b\n#define X\nint a; /*\n#endif\n*/\n#endif\n"
    assert condense(text) == b"if 1\ninclude <a.h> // b\nendif"


def test_a_header_may_be_included_by_any_end_of_its_path() -> None:
    paths = frozenset({"include/demo/a.h", "include/demo/detail/b.h", "include/demo/sub/c.h"})
    lines = b'include "detail/b.h"\ninclude <detail/b.h>\ninclude <demo/sub/c.h>\ninclude "../d.h"'
    found = find_lost({"include/demo/a.h": lines}, paths, "include")
    assert [each.included for each in found.lost] == ['"../d.h"']


def test_code_is_followed_for_so_long_in_all_files_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(named_paths, "_MOST_STEPS", 1000)
    loop = "foreach(a " + "x " * 400 + ")\n b()\nendforeach()\n"
    texts = {f"lib/{number}Config.cmake": loop for number in range(5)}
    unread = {each.file: each.reason for each in follow("set(a b)", texts=texts).unread}
    reason = "all code of the package takes more than 1000 steps"
    assert unread == dict.fromkeys(["lib/3Config.cmake", "lib/4Config.cmake"], reason)


def test_code_is_read_up_to_a_size_of_all_files_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_paths, "_MOST_CODE", 100)
    found = follow("set(a b)\n", texts={"lib/dConfig.cmake": "set(a b)\n" * 20})
    (unread,) = found.unread
    assert unread.file == "lib/dConfig.cmake"
    assert unread.reason == "the package has more than 100 characters of it"


@pytest.mark.parametrize("text", [b"#if\n", b"/**/", b'R"()"'])
def test_a_header_of_a_million_marks_is_not_followed(text: bytes) -> None:
    with pytest.raises(TooManyMarks, match="more than 500000 directives"):
        condense(text * 1_000_000)


def test_raw_strings_without_an_end_are_looked_through_once() -> None:
    assert condense(b'R"(' * 300_000 + b"\n#include <a.h>") == b"include <a.h>"
    many = b"".join(b'R"%x(' % number for number in range(200_000))
    assert condense(many + b"\n#include <a.h>") == b"include <a.h>"
    assert condense(b'x = R"y(\n#include <b.h>\n)" )y";\n#include <a.h>') == b"include <a.h>"


def test_a_value_of_pkg_config_has_a_longest_one() -> None:
    text = "a=" + "/x" * 5000 + "\n" + "b=/" + "${a}" * 500_000 + "\n"
    files = PkgConfigFiles()
    files.read("lib/d.pc", text)
    assert [len(each.path) <= 10_000 for each in files.paths] == [True, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"v=-L${{pcfiledir}}{' -L/a' * 1800}\n" + "Libs: ${v}\n" * 200, "over 20000 paths"),
        (f"v={'x' * 9000}\n" + "w=${v}\n" * 4000, "over 16777216 characters"),
    ],
)
def test_what_pkg_config_files_name_together_has_a_bound(text: str, reason: str) -> None:
    files = PkgConfigFiles()
    files.read("lib/a.pc", text)
    files.read("lib/b.pc", text)
    assert len(files.paths) <= 20_000
    assert [each.file for each in files.unread] == ["lib/a.pc", "lib/b.pc"]
    assert all(reason in each.reason and each.reached for each in files.unread)


@pytest.mark.parametrize("size", [300, 600])
def test_variables_of_pkg_config_are_not_copied_for_every_field(size: int) -> None:
    text = "".join(f"v{number}=/x\n" for number in range(size)) + "Libs: -L/a\n" * size
    assert count_steps(lambda: PkgConfigFiles().read("lib/a.pc", text)) < 200 * size


def test_an_include_is_not_compared_with_every_header_of_its_name() -> None:
    def steps(size: int) -> int:
        paths = frozenset(f"include/d{number}/x.h" for number in range(size))
        lines = b"".join(b"include <z%d/x.h>\n" % number for number in range(size))
        return count_steps(lambda: find_lost({"include/a.h": lines}, paths, "include"))

    assert steps(400) < 2.2 * steps(200)


def test_raw_strings_without_an_end_are_searched_a_few_times_alone() -> None:
    text = b"".join(b'R"%d(' % number for number in range(1000))
    assert count_steps(lambda: condense(text)) < 200
