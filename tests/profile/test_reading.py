"""Profiles are read, inherited and converted; invalid ones are refused in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from binary_checks.checks.expected import snippet_fails
from binary_checks.declaring import check
from binary_checks.errors import ProfileError
from binary_checks.model import (
    Code,
    ConsumerRequest,
    ElfFile,
    GpuRequest,
    Level,
    SnippetRequest,
    TranslationUnit,
    Wheel,
)
from binary_checks.profile import (
    KnownProblem,
    Profile,
    enable_thorough,
    find_profile,
    identify_profile,
    leave_out_code,
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


@check
def unlike(
    wheel: Wheel,
    *,
    paths: Mapping[str, tuple[str, ...]] = {},
    limits: Mapping[str, int] = {},
) -> Iterator[str]:
    """A wheel is unlike what the profile says of it."""
    yield from ()


def profile(folder: Path, text: str, name: str = "p.toml") -> Profile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_profile(str(path))


def refusal(folder: Path, text: str) -> str:
    """Return the line that refuses the profile, without its path."""
    with pytest.raises(ProfileError) as caught:
        validate(profile(folder, text), [too_heavy, adrift, unlike])
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
        ("[options.unlike]\nlimits = 3", "profile P:2: options.unlike.limits: 3 is not a table"),
        (
            "[options.unlike]\nlimits = {a = 'b'}",
            "profile P:2: options.unlike.limits.a: 'b' is not an int",
        ),
        (
            "[options.unlike]\npaths = {'a/*' = 'b'}",
            "profile P:2: options.unlike.paths.a/*: 'b' is not an array",
        ),
        (
            "[probes.consumer.units.a]\nfile = 'gone.cpp'",
            "profile P: probes.consumer.units.a.file: gone.cpp: No such file or directory",
        ),
        (
            "[probes.consumer.units.a]\nfile = 'x.cpp'\nsource = ''",
            "profile P: probes.consumer.units.a: it has both 'file' and 'source'",
        ),
        (
            "[probes.consumer.units.a]\nfile = 1",
            "profile P: probes.consumer.units.a.file: 1 is not a str",
        ),
        (
            "[probes.consumer.units.a]\nprints = 'x'",
            "profile P:1: probes.consumer.units.a: it has no 'source'",
        ),
        (
            "[probes.consumer.units.a]\nsource = ''\nprint = 'x'",
            "profile P:3: probes.consumer.units.a: unknown key 'print'; did you mean 'prints'?",
        ),
        (
            "[probes.consumer.units.a]\nsource = 1",
            "profile P:2: probes.consumer.units.a.source: 1 is not a str",
        ),
        (
            "[probes.consumer.units]\na = 'x'",
            "profile P:2: probes.consumer.units.a: 'x' is not a table",
        ),
        ("levels = 1", "profile P:1: levels: 1 is not a table"),
        (
            "[levels]\nadrift = 'warnin'",
            "profile P:2: levels.adrift: unknown level 'warnin'; did you mean 'warning'?",
        ),
        (
            "[levels]\nadrift = 1",
            "profile P:2: levels.adrift: neither a level nor a table of levels by paths",
        ),
        (
            "[levels.adrift]\n'a/*' = []",
            "profile P:2: levels.adrift.a/*: neither a level nor a table of levels by paths",
        ),
        ("[levels]\nadrif = 'off'", "profile P:2: unknown check 'adrif'; did you mean 'adrift'?"),
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


def test_a_table_is_converted_value_by_value_and_keeps_its_order(tmp_path: Path) -> None:
    text = "[options.unlike.paths]\n'b/*' = ['x', 'y']\n'a/*' = []\n"
    options = validate(profile(tmp_path, text), [unlike]).options["unlike"]
    assert list(options["paths"].items()) == [("b/*", ("x", "y")), ("a/*", ())]


def test_a_profile_adds_to_the_tables_of_the_one_it_extends(tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text("[options.unlike]\nlimits = {a = 1, b = 2}\n")
    read = profile(tmp_path, "extends = 'base.toml'\n[options.unlike]\nlimits = {b = 3, c = 4}\n")
    assert read.options == {"unlike": {"limits": {"a": 1, "b": 3, "c": 4}}}


def test_a_thorough_profile_runs_long_snippets_only_if_it_has_snippets() -> None:
    assert enable_thorough(load_profile("torch")).probes["snippets"]["thorough"] is True
    assert "snippets" not in enable_thorough(load_profile("cupy")).probes


# The units of a consumer are tables with keys of their own, which are merged and contain code.


def test_units_of_a_consumer_add_to_those_of_the_extended_profile(tmp_path: Path) -> None:
    base = "[probes.consumer.units.a]\nsource = 'int a;'\n[probes.consumer.units.b]\nsource = 'b'\n"
    (tmp_path / "base.toml").write_text(base)
    text = "extends = 'base.toml'\n[probes.consumer.units.b]\nsource = ''\ngpu = true\n"
    read = validate(profile(tmp_path, text), [])
    units = {
        "a": TranslationUnit(source=Code("int a;")),
        "b": TranslationUnit(source=Code(""), gpu=True),
    }
    assert read.requests == {ConsumerRequest: ConsumerRequest(units=units)}


def test_of_a_profile_that_nobody_named_no_unit_is_built(tmp_path: Path) -> None:
    text = (
        "[probes.consumer]\npackage = 'X'\nstandard = 17\n[probes.consumer.units.a]\nsource = 'a'\n"
    )
    found = leave_out_code(profile(tmp_path, text), [])
    assert found.probes == {"consumer": {"standard": 17}}
    assert found.left_out == ("probes.consumer.package", "probes.consumer.units")


def test_a_unit_may_stand_in_a_file_beside_the_profile(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int main() {}\n")
    read = validate(profile(tmp_path, "[probes.consumer.units.a]\nfile = 'a.cpp'\n"), [])
    units = {"a": TranslationUnit(source=Code("int main() {}\n"))}
    assert read.requests == {ConsumerRequest: ConsumerRequest(units=units)}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_pipe_is_no_source(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.cpp")
    with pytest.raises(ProfileError, match="not a file"):
        profile(tmp_path, "[probes.consumer.units.a]\nfile = 'a.cpp'\n")


# A profile is identified by its contents.


ONE, OTHER = KnownProblem(check="c", reason="r"), KnownProblem(check="d", reason="s")


def test_every_word_counts_and_not_where_it_lies() -> None:
    plain = identify_profile(Profile()).sha256
    elsewhere = identify_profile(Profile(source="there.toml"))
    assert (elsewhere.source, elsewhere.sha256) == ("there.toml", plain)
    for changed in (
        Profile(enable=frozenset({"a"})),
        Profile(strict=True),
        Profile(options={"a": {"b": 1}}),
        Profile(objects=1),
    ):
        assert identify_profile(changed).sha256 != plain


def test_the_order_of_sets_tables_and_known_problems_does_not_count() -> None:
    one = Profile(options={"a": {}, "b": {}}, known_problems=(ONE, OTHER))
    other = Profile(options={"b": {}, "a": {}}, known_problems=(OTHER, ONE))
    assert identify_profile(one) == identify_profile(other)


def test_the_order_of_levels_counts_as_the_first_that_matches_holds() -> None:
    a, b = ("a*", Level.OFF), ("*b", Level.WARNING)
    one, other = (identify_profile(Profile(levels={"c": dict(p)})) for p in ((a, b), (b, a)))
    assert one != other


def test_known_problems_have_a_hash_of_their_own() -> None:
    without, with_one = (
        identify_profile(Profile()),
        identify_profile(Profile(known_problems=(ONE,))),
    )
    assert without.sha256 == with_one.sha256
    assert without.known_problems_sha256 != with_one.known_problems_sha256


def test_checks_of_its_own_count_by_their_bytes(tmp_path: Path) -> None:
    for name, text in (("a.py", "x"), ("b.py", "x"), ("c.py", "y")):
        (tmp_path / name).write_text(text)
    a, b, c = (
        identify_profile(replace(Profile(), checks=(tmp_path / name,))).sha256
        for name in ("a.py", "b.py", "c.py")
    )
    assert a == b != c
