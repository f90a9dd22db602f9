"""Profiles are read, inherited and converted; invalid ones are refused in one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

import pytest

from binary_checks.checks.expected import snippet_fails
from binary_checks.declaring import check
from binary_checks.errors import ProfileError
from binary_checks.model import ElfFile, GpuRequest, SnippetRequest, Wheel
from binary_checks.profile import (
    KnownProblem,
    Profile,
    enable_thorough,
    find_profile,
    load_profile,
    validate,
)


@check
def too_heavy(
    wheel: Wheel, *, limit: float | None = None, names: tuple[str, ...] = (), strict: bool = False
) -> Iterator[str]:
    """A wheel is too heavy."""
    yield from ()


@check(enabled=False)
def adrift(library: ElfFile, *, depth: int = 1) -> Iterator[str]:
    """A library is adrift."""
    yield from ()


def profile(folder: Path, text: str, name: str = "p.toml") -> Profile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_profile(str(path))


def refusal(folder: Path, text: str) -> str:
    """Return the line that refuses the profile, without its path."""
    with pytest.raises(ProfileError) as caught:
        validate(profile(folder, text), [too_heavy, adrift])
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(folder / "p.toml"), "P")


def test_an_empty_profile_expects_what_the_default_does(tmp_path: Path) -> None:
    assert profile(tmp_path, "") == Profile(source=str(tmp_path / "p.toml"))
    assert load_profile("default") == Profile(source="default")
    assert profile(tmp_path, "extends = 'default'\nobjects = 2\n").objects == 2


def test_every_key_is_read(tmp_path: Path) -> None:
    text = """
    checks = ["own/checks.py"]
    enable = ["adrift"]
    disable = ["too-heavy"]
    objects = 0
    system_libraries = ["libcuda.so.1"]
    timeout = 20
    [options.too-heavy]
    limit = 3
    [[known_problems]]
    check = "adrift"
    reason = "we know"
    expires = 2030-01-31
    """
    read = profile(tmp_path, text)
    assert read.checks == (tmp_path / "own/checks.py",)
    assert (read.enable, read.disable) == ({"adrift"}, {"too-heavy"})
    assert (read.objects, read.timeout) == (0, 20.0)
    assert read.system_libraries == {"libcuda.so.1"}
    assert read.options == {"too-heavy": {"limit": 3}}
    (known,) = read.known_problems
    assert known == KnownProblem(check="adrift", reason="we know", expires=date(2030, 1, 31))


def test_a_profile_adds_to_the_one_it_extends(tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text('enable = ["adrift"]\ntimeout = 7.5\n[options.too-heavy]\nlimit = 3\n')
    text = "extends = 'base.toml'\n[options.too-heavy]\nnames = ['x']\n"
    read = profile(tmp_path, text)
    assert read.enable == {"adrift"}
    assert read.timeout == 7.5
    assert read.options == {"too-heavy": {"limit": 3, "names": ["x"]}}


def test_what_probes_are_asked_is_typed_and_adds_up(tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text('[probes.snippets]\nrequires = ["a"]\n[probes.snippets.code]\none = "1"\n')
    text = """
    extends = 'base.toml'
    [probes.snippets]
    requires = ['b']
    [probes.snippets.code]
    two = '2'
    [probes.gpu]
    steps = 'torch'
    """
    read = validate(profile(tmp_path, text), [])
    assert read.requests == {
        SnippetRequest: SnippetRequest(code={"one": "1", "two": "2"}, requires=("b",)),
        GpuRequest: GpuRequest(steps="torch"),
    }


def test_a_check_that_is_off_runs_where_the_profile_asks_its_probe(tmp_path: Path) -> None:
    asked = profile(tmp_path, "[probes.snippets.code]\none = '1'\n")
    assert validate(asked, [snippet_fails]).selects(snippet_fails)
    assert not Profile().selects(snippet_fails)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("probes = 1", "profile P:1: probes: 1 is not a table"),
        ("[probes]\ncuda = 1", "profile P: probes.cuda: not a table"),
        (
            "[probes.snipets]",
            "profile P:1: probes: unknown probe 'snipets'; did you mean 'snippets'?",
        ),
        (
            "[probes.cuda]\nmodul = 'x'",
            "profile P:2: probes.cuda: unknown key 'modul'; did you mean 'module'?",
        ),
        ("[probes.cuda]\nmodule = 1", "profile P:2: probes.cuda.module: 1 is not a str"),
        (
            "[probes.snippets.code]\none = 1",
            "profile P:2: probes.snippets.code.one: 1 is not a str",
        ),
        (
            "[probes.gpu]\nsteps = 'jax'",
            "profile P:2: probes.gpu.steps: 'jax' is not one of: torch",
        ),
        ("[probes.gpu]\nsteps = []", "profile P:2: probes.gpu.steps: [] is not one of: torch"),
    ],
)
def test_a_request_that_cannot_be_followed_is_one_line(
    tmp_path: Path, text: str, line: str
) -> None:
    assert refusal(tmp_path, text) == line


def test_option_values_become_what_the_check_declares(tmp_path: Path) -> None:
    text = "[options.too-heavy]\nlimit = 3\nnames = ['a', 'b']\nstrict = true\n"
    options = validate(profile(tmp_path, text), [too_heavy]).options["too-heavy"]
    assert options == {"limit": 3.0, "names": ("a", "b"), "strict": True}
    assert isinstance(options["limit"], float)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("enabel = []", "profile P:1: unknown key 'enabel'; did you mean 'enable'?"),
        ("x = 1", "profile P:1: unknown key 'x'"),
        ("enable = ['adrfit']", "profile P:1: unknown check 'adrfit'; did you mean 'adrift'?"),
        ("disable = ['zz']", "profile P:1: unknown check 'zz'"),
        ("enable = 'adrift'", "profile P:1: enable: 'adrift' is not an array"),
        ("enable = [1]", "profile P:1: enable: 1 is not a str"),
        ("objects = 'many'", "profile P:1: objects: 'many' is not an int"),
        ("objects = true", "profile P:1: objects: True is not an int"),
        ("timeout = 'long'", "profile P:1: timeout: 'long' is not a float"),
        ("unjudged = 'ignore'", "profile P:1: unjudged: 'ignore' is neither fail nor accept"),
        ("limit_factor = 0", "profile P:1: limit_factor: not from 1 to 1024"),
        ("limit_factor = 1025", "profile P:1: limit_factor: not from 1 to 1024"),
        ("limit_factor = 1.5", "profile P:1: limit_factor: 1.5 is not an int"),
        ("limit_factor = true", "profile P:1: limit_factor: True is not an int"),
        ("options = 1", "profile P:1: options: 1 is not a table"),
        ("[options]\nadrift = 1", "profile P: options.adrift: not a table"),
        ("[options.adrfit]", "profile P:1: unknown check 'adrfit'; did you mean 'adrift'?"),
        (
            "[options.adrift]\ndeph = 1",
            "profile P:2: options.adrift: unknown option 'deph'; did you mean 'depth'?",
        ),
        (
            "[options.adrift]\ndepth = 'low'",
            "profile P:2: options.adrift.depth: 'low' is not an int",
        ),
        ("[[known_problems]]\nreason = 'r'", "profile P:2: known_problems[0]: 'check' is missing"),
        (
            "[[known_problems]]\ncheck = 'adrift'\nreason = ''",
            "profile P:2: known_problems[0]: 'reason' is missing",
        ),
        (
            "[[known_problems]]\ncheck = 'adrfit'\nreason = 'r'",
            "profile P:2: known_problems[0]: unknown check 'adrfit'; did you mean 'adrift'?",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    assert refusal(tmp_path, text) == line


def test_a_profile_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="No such file"):
        load_profile(str(tmp_path / "none.toml"))
    with pytest.raises(ProfileError, match=r"neither a shipped profile nor a \.toml file"):
        load_profile("defualt")


@pytest.mark.parametrize("rounds", ["itself", "in a ring"])
def test_profiles_that_extend_each_other_for_ever_are_refused(tmp_path: Path, rounds: str) -> None:
    first, second = tmp_path / "p.toml", tmp_path / "second.toml"
    second.write_text(f"extends = '{first}'\n")
    target = first if rounds == "itself" else second
    assert refusal(tmp_path, f"extends = '{target}'\n") == "profile P: extends itself"


def test_the_folders_pyproject_is_found(tmp_path: Path) -> None:
    assert find_profile(tmp_path).source == "default"
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert find_profile(tmp_path).source == "default"
    (tmp_path / "pyproject.toml").write_text("[tool.binary_checks]\nobjects = 3\n")
    found = find_profile(tmp_path)
    assert found.objects == 3
    assert found.source == "pyproject.toml"


def test_the_nearest_pyproject_with_the_table_is_found_in_folders_above(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    text = "[tool.binary_checks]\nobjects = 3\nchecks = ['own.py']\n"
    (tmp_path / "pyproject.toml").write_text(text)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    found = find_profile(below)
    assert (found.source, found.objects) == ("../../pyproject.toml", 3)
    assert [each.resolve() for each in found.checks] == [tmp_path.resolve() / "own.py"]
    (below / "pyproject.toml").write_text("[tool.binary_checks]\nobjects = 4\n")
    assert find_profile(below).objects == 4


@pytest.mark.parametrize("root", [".git", ".hg"])
def test_the_search_ends_at_the_root_of_a_repository(tmp_path: Path, root: str) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / root).mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.binary_checks]\nobjects = 3\n")
    assert find_profile(tmp_path / "a" / "b").source == "default"
    (tmp_path / "a" / "pyproject.toml").write_text("[tool.binary_checks]\nobjects = 4\n")
    assert find_profile(tmp_path / "a" / "b").objects == 4


def test_a_pyproject_above_that_is_no_toml_is_refused_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool\n")
    with pytest.raises(ProfileError, match=r"profile \.\./pyproject\.toml: not TOML"):
        find_profile(tmp_path / "a")


def test_a_pyproject_whose_table_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("tool = 1\n")
    assert find_profile(tmp_path).source == "default"
    (tmp_path / "pyproject.toml").write_text("[tool]\nbinary_checks = 1\n")
    with pytest.raises(ProfileError, match=r"tool\.binary_checks: not a table"):
        find_profile(tmp_path)


def test_a_check_runs_when_it_is_on_or_asked_for_and_not_disabled() -> None:
    assert Profile().selects(too_heavy)
    assert not Profile().selects(adrift)
    assert Profile(enable=frozenset({"adrift"})).selects(adrift)
    assert Profile(options={"adrift": {"depth": 2}}).selects(adrift)
    assert not Profile(disable=frozenset({"too-heavy"})).selects(too_heavy)


def test_waivers_are_picked_by_check_and_package() -> None:
    ours = KnownProblem(check="c", reason="r", package="demo-*.whl")
    other = KnownProblem(check="d", reason="r")
    given = Profile(known_problems=(ours, other))
    assert given.waivers("c", "demo-1.0-py3-none-any.whl") == (ours,)
    assert given.waivers("c", "other-1.0-py3-none-any.whl") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a = " + "[" * 50_000,
            "not TOML: .*(too deeply nested, or a number is too long|nested more than)",
        ),
        ("objects = " + "9" * 5_000, "not TOML: too deeply nested, or a number is too long"),
        ("timeout = 0", "timeout: 0.0 is not between 0 and 1,000,000 seconds"),
        ("timeout = -inf", "timeout: -inf is not between 0 and 1,000,000 seconds"),
        ("timeout = nan", "timeout: nan is not between 0 and 1,000,000 seconds"),
        (
            "[[known_problems]]\ncheck = 'x'\nreason = 'y'\nexpires = 2020-01-01T00:00:00",
            "expires: .* is not a date",
        ),
    ],
)
def test_numbers_and_nests_without_measure_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(ProfileError, match=message):
        profile(tmp_path, text)


@check
def unlike(
    wheel: Wheel,
    *,
    paths: Mapping[str, tuple[str, ...]] = {},
    limits: Mapping[str, int] = {},
) -> Iterator[str]:
    """A wheel is unlike what the profile says of it."""
    yield from ()


def test_a_table_is_converted_value_by_value_and_keeps_its_order(tmp_path: Path) -> None:
    text = "[options.unlike.paths]\n'b/*' = ['x', 'y']\n'a/*' = []\n"
    options = validate(profile(tmp_path, text), [unlike]).options["unlike"]
    assert list(options["paths"].items()) == [("b/*", ("x", "y")), ("a/*", ())]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("limits = 3", "profile P:2: options.unlike.limits: 3 is not a table"),
        ("limits = {a = 'b'}", "profile P:2: options.unlike.limits.a: 'b' is not an int"),
        ("paths = {'a/*' = 'b'}", "profile P:2: options.unlike.paths.a/*: 'b' is not an array"),
    ],
)
def test_a_table_of_other_values_is_refused(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(ProfileError) as caught:
        validate(profile(tmp_path, f"[options.unlike]\n{text}"), [unlike])
    assert str(caught.value).replace(str(tmp_path / "p.toml"), "P") == line


def test_a_profile_adds_to_the_tables_of_the_one_it_extends(tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text("[options.unlike]\nlimits = {a = 1, b = 2}\n")
    read = profile(tmp_path, "extends = 'base.toml'\n[options.unlike]\nlimits = {b = 3, c = 4}\n")
    assert read.options == {"unlike": {"limits": {"a": 1, "b": 3, "c": 4}}}


def test_a_thorough_profile_runs_long_snippets_only_if_it_has_snippets() -> None:
    assert enable_thorough(load_profile("torch")).probes["snippets"]["thorough"] is True
    assert "snippets" not in enable_thorough(load_profile("cupy")).probes
