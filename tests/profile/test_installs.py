"""The ways of installing that a profile lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks.errors import ProfileError
from binary_checks.model import InstallWay, PlaceName
from binary_checks.profile import Profile, leave_out_code, load_profile


def load(folder: Path, text: str, name: str = "own.toml") -> Profile:
    path = folder / name
    path.write_text(text)
    return load_profile(str(path))


def test_an_entry_lists_what_is_installed_with_the_package(tmp_path: Path) -> None:
    text = """
    [[installs]]
    name = "numpy-1"
    requires = ["numpy<2"]
    options = ["--extra-index-url", "https://a/simple", "--find-links=wheels", "-U"]
    tool = "uv"
    """
    assert load(tmp_path, text).installs == (
        InstallWay(
            name="numpy-1",
            tool="uv",
            requires=("numpy<2",),
            options=(
                ("--extra-index-url", "https://a/simple"),
                ("--find-links", "wheels"),
                ("--upgrade", ""),
            ),
        ),
    )


def read_command(folder: Path, command: str) -> InstallWay:
    (way,) = load(folder, f"[[installs]]\nname = 'a'\ncommand = '{command}'").installs
    return way


@pytest.mark.parametrize(
    ("start", "tool"),
    [
        ("pip install", "pip"),
        ("pip3 install", "pip"),
        ("$ python3 -m pip install", "pip"),
        ("uv pip install", "uv"),
    ],
)
def test_a_command_as_users_are_told(tmp_path: Path, start: str, tool: str) -> None:
    command = f'{start} --pre torch "numpy<2" -q --index-url https://a/whl/cu126'
    way = read_command(tmp_path, command)
    assert (way.tool, way.command) == (tool, command)
    assert way.requires == ("torch", "numpy<2")
    assert way.options == (("--pre", ""), ("--index-url", "https://a/whl/cu126"))


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("'a'", "installs, entry 1: not a table"),
        ("{}", "name: '' is not a name"),
        ("{name = 'A b'}", "name: 'A b' is not a name such as 'numpy-1'"),
        ("{name = 'a', colour = 1}", "unknown key 'colour'"),
        ("{name = 'a', tool = 'conda'}", "tool: 'conda' is none of pip, uv, poetry"),
        ("{name = 'a', requires = ['=']}", "=: not a requirement"),
        ("{name = 'a', options = ['--user']}", "--user: expected one of --extra-index-url"),
        ("{name = 'a', options = ['numpy']}", "options: numpy: expected one of"),
        ("{name = 'a', options = ['-i']}", "-i: it has no value"),
        ("{name = 'a', command = 'conda install torch'}", "not 'pip install …' or 'uv pip"),
        ("{name = 'a', command = 'pip install \"a'}", "command: No closing quotation"),
        ("{name = 'a', tool = 'uv', command = 'pip install a'}", "it uses pip, but 'tool' says uv"),
        ("{name = 'a'}, {name = 'a'}", "entry 2: there is another entry with the name 'a'"),
    ],
)
def test_an_entry_that_cannot_be_followed(tmp_path: Path, entry: str, reason: str) -> None:
    with pytest.raises(ProfileError) as raised:
        load(tmp_path, f"installs = [{entry}]")
    assert reason in str(raised.value)


def test_an_extending_profile_adds_entries_and_replaces_those_of_the_same_name(
    tmp_path: Path,
) -> None:
    load(tmp_path, "installs = [{name = 'a'}, {name = 'b'}]", "base.toml")
    own = "extends = 'base.toml'\ninstalls = [{name = 'c'}, {name = 'a', requires = ['x']}]"
    found = load(tmp_path, own).installs
    assert [(each.name, each.requires) for each in found] == [("a", ("x",)), ("b", ()), ("c", ())]


def test_a_place_names_an_entry(tmp_path: Path) -> None:
    profile = load(tmp_path, "installs = [{name = 'a'}]")
    assert profile.find_way(PlaceName(argument="a")) == InstallWay(name="a")
    assert profile.find_way(PlaceName()) == InstallWay()
    assert profile.find_way(PlaceName(kind="image", argument="a")) == InstallWay()
    with pytest.raises(ProfileError, match=r"venv:b: not in the profile .*, which has a"):
        profile.find_way(PlaceName(argument="b"))


def test_a_profile_that_was_found_installs_nothing_else(tmp_path: Path) -> None:
    profile = leave_out_code(load(tmp_path, "installs = [{name = 'a'}]"), ())
    assert (profile.installs, profile.left_out) == ((), ("installs",))
