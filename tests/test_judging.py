"""One check over the facts of one package, weighed against the profile."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from binary_checks.declaring import Check, check
from binary_checks.errors import CheckError, NotApplicable, TooLarge
from binary_checks.examination.judging import (
    Case,
    Verdict,
    applicable_formats,
    judge_case,
    prepare,
)
from binary_checks.examination.settings import RunSettings
from binary_checks.model import (
    CondaPackage,
    ElfFile,
    Finding,
    Format,
    Layout,
    Level,
    Linkage,
    MachOFile,
    MalformedObject,
    Note,
    NotInspected,
    ObjectFile,
    Outcome,
    Package,
    Problem,
    UnreadObject,
    Wheel,
    object_kinds,
)
from binary_checks.profile import KnownProblem, Profile
from binary_checks.watchdog import Watchdog
from binary_checks.wording.problem_lines import finding_line
from fixtures.values import elf_file, wheel

TODAY = date(2026, 6, 1)


@check
def absolute_path(library: ElfFile, *, allowed: tuple[str, ...] = ()) -> Iterator[str]:
    """A library looks in an absolute folder."""
    for folder in library.runpath:
        if folder.startswith("/") and folder not in allowed:
            sentence = f"search path {folder}"
            yield Problem(path=library.path, sentence=sentence, facts=(folder,))


@check
def any_object(item: ObjectFile) -> Iterator[str]:
    """An object exists."""
    yield "exists"


@check
def needs_conda_or_wheel(package: CondaPackage | Wheel, linkage: Linkage) -> Iterator[Finding]:
    """A package is of one kind or the other."""
    yield Problem(path="demo/x", sentence=f"{type(package).__name__} on {linkage.target}")
    yield NotInspected(sentence="one place")


@check
def gap_before_the_question(package: Package) -> Iterator[Finding]:
    """A check asks whether it applies after it has found a gap."""
    if package.name != "demo":
        yield NotInspected(path="demo/x", sentence="it cannot be read")
    raise NotApplicable("nothing relates to it")


class GivenFacts:
    """Facts that need no gathering: values, or the exceptions that gathering raises."""

    def __init__(self, package: Package, *others: Any) -> None:
        self.path = package.path
        self.label = package.path.name
        self.wheel_names = ()
        self.place = ""
        self.watchdog = Watchdog()
        self._values = (package, *others)

    def get(self, kind: type) -> Any:
        found = next((value for value in self._values if isinstance(value, kind)), None)
        if found is None:
            raise NotApplicable(f"no {kind.__name__}")
        return found


def settings(profile: Profile | None = None) -> RunSettings:
    return RunSettings(profile=profile or Profile(), today=TODAY)


def verdict_on(judged: Check[Any], package: Package, profile: Profile | None = None) -> Verdict:
    facts: Any = GivenFacts(package, Linkage(target="musl"))
    return judge_case(prepare(judged, facts), settings(profile))


STRAY = elf_file("demo/a.so", runpath=("/opt/lib", "/tmp/lib"))
PACKAGE = wheel(objects=(STRAY, elf_file("demo/b.so")))
OPT = Problem(path="demo/a.so", sentence="search path /opt/lib", facts=("/opt/lib",))
TMP = Problem(path="demo/a.so", sentence="search path /tmp/lib", facts=("/tmp/lib",))


def test_every_object_is_judged_and_every_problem_collected() -> None:
    verdict = verdict_on(absolute_path, PACKAGE)
    assert verdict.inspected == 2
    assert verdict.problems == (OPT, TMP)
    assert list(verdict.lines()) == [
        f"absolute-path: {PACKAGE.file_name}: demo/a.so: search path /opt/lib",
        f"absolute-path: {PACKAGE.file_name}: demo/a.so: search path /tmp/lib",
    ]


def test_a_sentence_is_a_problem_of_the_object_and_a_problem_has_its_own_path() -> None:
    verdict = verdict_on(needs_conda_or_wheel, PACKAGE)
    assert verdict.problems == (Problem(path="demo/x", sentence="Wheel on musl"),)
    assert verdict.not_inspected == (NotInspected(sentence="one place"),)
    assert verdict.inspected == 1


def test_a_note_is_neither_a_problem_nor_a_gap_and_findings_may_be_a_list() -> None:
    @check
    def mine(item: ObjectFile) -> Iterator[Finding]:
        """An object is there."""
        half = "half \ud800"
        return [  # type: ignore[return-value]
            Note(sentence="worth knowing"),
            Note(path="other", sentence=half),
            half,
        ]

    verdict = verdict_on(mine, wheel(objects=(elf_file("demo/a.so"),)))
    assert verdict.notes == (
        Note(path="demo/a.so", sentence="worth knowing"),
        Note(path="other", sentence="half \\ud800"),
    )
    assert [each.sentence for each in verdict.problems] == ["half \\ud800"]
    assert (verdict.accepted, verdict.not_inspected) == ((), ())


def test_the_profiles_options_reach_the_check() -> None:
    profile = Profile(options={"absolute-path": {"allowed": ("/opt/lib",)}})
    assert verdict_on(absolute_path, PACKAGE, profile).problems == (TMP,)


def waiver(**fields: Any) -> KnownProblem:
    return KnownProblem(**{"check": "absolute-path", "reason": "ours to fix", **fields})


def test_a_waiver_accepts_problems_and_leaves_new_ones() -> None:
    verdict = verdict_on(absolute_path, PACKAGE, Profile(known_problems=(waiver(match="/opt"),)))
    assert verdict.problems == (TMP,)
    assert [(item.problem, item.reason) for item in verdict.accepted] == [(OPT, "ours to fix")]


def test_a_waiver_that_matches_nothing_is_a_problem_unless_it_is_for_another_package() -> None:
    stale = waiver(path="gone/*", reason="long ago")
    verdict = verdict_on(absolute_path, PACKAGE, Profile(known_problems=(stale, waiver())))
    (problem,) = verdict.problems
    assert problem.sentence == "known problem 'long ago' for gone/* matched nothing; remove it"
    elsewhere = waiver(check="any-object", package="other-*")
    verdict = verdict_on(any_object, PACKAGE, Profile(known_problems=(elsewhere,)))
    assert [each.sentence for each in verdict.problems] == ["exists", "exists"]


def test_a_waiver_is_not_stale_where_the_check_could_not_look_everywhere() -> None:
    malformed = MalformedObject(path="demo/c.so", format=Format.ELF, offset=0, reason="cut off")
    package = wheel(objects=(elf_file(),), malformed=(malformed,))
    verdict = verdict_on(absolute_path, package, Profile(known_problems=(waiver(),)))
    assert verdict.problems == ()
    assert verdict.not_inspected == (NotInspected(path="demo/c.so", sentence="cut off"),)


def test_an_expired_waiver_accepts_nothing_and_says_so_unless_another_one_accepts() -> None:
    old = waiver(expires=date(2026, 5, 31))
    *found, expired = verdict_on(absolute_path, PACKAGE, Profile(known_problems=(old,))).problems
    assert found == [OPT, TMP]
    assert expired.sentence.startswith("known problem 'ours to fix' expired on 2026-05-31, but 2 ")
    verdict = verdict_on(absolute_path, PACKAGE, Profile(known_problems=(old, waiver())))
    assert (verdict.problems, len(verdict.accepted)) == ((), 2)


@pytest.mark.parametrize(
    ("name", "outcome"), [("demo", Outcome.NOT_APPLICABLE), ("other", Outcome.NOT_INSPECTED)]
)
def test_what_was_found_before_a_check_does_not_apply_counts(name: str, outcome: Outcome) -> None:
    verdict = verdict_on(gap_before_the_question, replace(PACKAGE, name=name))
    assert verdict.outcome is outcome


def test_a_package_without_such_objects_is_not_applicable() -> None:
    verdict = verdict_on(absolute_path, wheel())
    assert verdict.outcome is Outcome.NOT_APPLICABLE
    assert verdict.reason == "no ELF object in the package"


@pytest.mark.parametrize(
    ("platform", "outcome"),
    [
        ("manylinux_2_17_x86_64", Outcome.FAILED),
        ("manylinux_2_17_x86_64.win_amd64", Outcome.FAILED),
        ("any", Outcome.FAILED),
        ("win_amd64", Outcome.NOT_APPLICABLE),
        ("macosx_11_0_arm64", Outcome.NOT_APPLICABLE),
    ],
)
def test_an_object_that_no_claimed_system_loads_is_data(platform: str, outcome: Outcome) -> None:
    package = wheel(f"demo-1.0-py3-none-{platform}.whl", objects=PACKAGE.objects)
    verdict = verdict_on(absolute_path, package)
    assert verdict.outcome is outcome
    if outcome is Outcome.NOT_APPLICABLE:
        assert verdict.reason == "no ELF object that its systems load"


def test_a_package_whose_objects_of_that_format_were_all_unread_was_not_inspected() -> None:
    unread = UnreadObject(path="demo/a.so", format=Format.ELF, reason="not read yet")
    verdict = verdict_on(absolute_path, wheel(unread=(unread,)))
    assert verdict.outcome is Outcome.NOT_INSPECTED
    assert verdict.reason == "none of 1 objects could be read: not read yet"
    unread = UnreadObject(path="demo/a.dll", format=Format.PE, reason="not read yet")
    package = wheel(objects=(elf_file(),), unread=(unread,))
    assert verdict_on(absolute_path, package).not_inspected == ()
    verdict = verdict_on(any_object, package)
    assert [each.sentence for each in verdict.problems] == ["exists"]
    assert [each.sentence for each in verdict.not_inspected] == ["not read yet"]


def test_formats_follow_from_the_signature() -> None:
    @check
    def either(item: ElfFile | MachOFile) -> Iterator[str]:
        """It is one or the other."""
        yield from ()

    assert applicable_formats(absolute_path) == {Format.ELF}
    assert applicable_formats(either) == {Format.ELF, Format.MACHO}
    assert applicable_formats(needs_conda_or_wheel) is None
    known = {kind.format for kind in object_kinds().values()}
    assert applicable_formats(any_object) == known >= {Format.ELF, Format.MACHO, Format.PE}


@pytest.mark.parametrize(
    ("problem", "line"),
    [
        (Problem(sentence="broken"), "c: p.whl: broken"),
        (Problem(path="a b.so", sentence="broken: badly"), "c: p.whl: a b.so: broken: badly"),
        (Problem(path="a\nb\x1b[31m", sentence="x"), r"c: p.whl: a\nb\x1b[31m: x"),
        (Problem(path="a\udcff", sentence="ü"), r"c: p.whl: a\udcff: ü"),
    ],
)
def test_a_problem_is_one_line_that_no_name_can_break(problem: Problem, line: str) -> None:
    assert finding_line("c", "p.whl", problem) == line


def test_a_case_can_be_judged_without_any_gathering_and_an_error_names_its_check() -> None:
    case = Case(check=any_object, package_file_name="p.whl", subjects=(STRAY,), evidence=())
    assert judge_case(case, settings()).problems == (Problem(path="demo/a.so", sentence="exists"),)
    case = replace(case, error=CheckError("nothing gathers dict"))
    assert judge_case(case, settings()).reason == "any-object: nothing gathers dict"


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (lambda: iter([None]), "yields None, which is not a finding"),
        (lambda: iter([b"x"]), "yields b'x', which is not a finding"),
        (lambda: iter([""]), "yields '', which is not a finding"),
        (lambda: iter([Problem(sentence=3)]), "yields Problem"),  # type: ignore[arg-type]
        (
            lambda: iter([Problem(sentence="y", level="x")]),  # type: ignore[arg-type]
            ".*which is not a finding",
        ),
        (lambda: None, "returned NoneType, not an iterator of findings: use yield"),
        (lambda: "text", "returned str, not an iterator of findings: use yield"),
        (lambda: 1 // 0, r"broke: ZeroDivisionError: .* \(test_judging.py:\d+\)"),
        (lambda: sys.exit(3), "broke: SystemExit: 3"),
    ],
)
def test_what_is_no_finding_is_the_checks_fault(says: Any, message: str) -> None:
    @check
    def mine(item: ObjectFile) -> Iterator[Finding]:
        """An object is there."""
        return says()  # type: ignore[no-any-return]

    verdict = verdict_on(mine, PACKAGE)
    assert verdict.outcome is Outcome.BROKEN
    assert re.match(f"mine {message}", verdict.reason)


def test_what_a_limit_hides_is_a_problem_that_a_profile_may_accept_whoever_meets_it() -> None:
    hidden = UnreadObject(path="demo/a.so", format=Format.ELF, reason="long", too_large=True)
    facts = GivenFacts(wheel(objects=[elf_file()], unread=[hidden]))
    (problem,) = judge_case(prepare(absolute_path, facts), settings()).problems
    assert problem.path == "demo/a.so"
    assert problem.sentence.startswith("too large to inspect: long")
    assert problem.fix == "Raise limit_factor in the profile, or accept the problem there."
    known = KnownProblem(check="absolute-path", reason="ours", match="too large to inspect")
    verdict = judge_case(prepare(absolute_path, facts), settings(Profile(known_problems=(known,))))
    assert not verdict.problems
    assert len(verdict.accepted) == 1

    @check
    def too_long(library: ElfFile) -> Iterator[str]:
        raise TooLarge(f"{library.path} has no end")
        yield ""

    (problem,) = verdict_on(too_long, wheel(objects=[elf_file()])).problems
    assert "too large to inspect" in problem.sentence


@check(level=Level.WARNING)
def unusual(library: ElfFile) -> Iterator[Finding]:
    """A library is unusual."""
    yield "is unusual"
    yield Problem(path=library.path, sentence="is odd", level=Level.OFF)


@check
def half_as_bad(library: ElfFile) -> Iterator[Finding]:
    """A library is bad, or half as bad."""
    yield Problem(path=library.path, sentence="half as bad", level=Level.WARNING)
    yield "bad"


ODD = Problem(path="demo/a.so", sentence="is unusual", facts=("#2",), level=Level.WARNING)
ONE = wheel(objects=(elf_file("demo/a.so"),))


def levels(check_id: str, **by_path: str) -> dict[str, dict[str, Level]]:
    return {check_id: {glob: Level(level) for glob, level in by_path.items()}}


def test_a_warning_is_no_problem_but_in_a_strict_run_and_is_accepted_like_an_error() -> None:
    verdict = verdict_on(unusual, ONE)
    assert (verdict.problems, verdict.warnings) == ((), (ODD,))
    assert verdict.level is Level.WARNING
    known = KnownProblem(check="unusual", reason="issue 7")
    verdict = verdict_on(unusual, ONE, Profile(known_problems=(known,)))
    assert ([each.problem for each in verdict.accepted], verdict.warnings) == ([ODD], ())
    verdict = verdict_on(unusual, ONE, Profile(strict=True))
    assert ([each.sentence for each in verdict.problems], verdict.warnings) == (["is unusual"], ())


def test_a_problem_may_be_milder_than_its_check_and_never_graver() -> None:
    verdict = verdict_on(half_as_bad, ONE)
    assert [each.sentence for each in verdict.problems] == ["bad"]
    assert [each.sentence for each in verdict.warnings] == ["half as bad"]
    grave = Problem(path="demo/a.so", sentence="is unusual", level=Level.ERROR)
    assert grave not in verdict_on(unusual, ONE).problems


def test_the_profiles_level_replaces_that_of_check_and_problem() -> None:
    graver = Profile(levels=levels("unusual", **{"*": "error"}))
    assert [each.sentence for each in verdict_on(unusual, ONE, graver).problems] == [
        "is odd",
        "is unusual",
    ]
    off = levels("half-as-bad", **{"demo/*": "off"})
    for known in ((), (KnownProblem(check="half-as-bad", reason="issue 7"),)):  # it is not stale
        verdict = verdict_on(half_as_bad, ONE, Profile(known_problems=known, levels=off))
        assert (verdict.problems, verdict.warnings, verdict.accepted) == ((), (), ())


# Findings have paths in the prefix; users and waivers see paths relative to site-packages.

SITE = "lib/python3.11/site-packages"
LAID_OUT = Layout(site_packages=SITE)


@check
def bad_library(library: ElfFile) -> Iterator[Finding]:
    """A library is bad."""
    yield "is bad"


@check
def names_no_place(package: Package) -> Iterator[Finding]:
    """It names what is no place of the package."""
    yield Problem(path="demo-1.0.data/scripts/x", sentence="a name of the archive")
    yield Problem(path=f"wheel:dep:{SITE}/dep/x.so", sentence="of another package")


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        (f"{SITE}/demo/a.so", "demo/a.so"),
        ("lib/libdemo.so", "../../../lib/libdemo.so"),
        ("../out.so", "../../../../out.so"),
    ],
)
def test_a_path_is_shown_and_waived_as_it_counts_from_site_packages(place: str, shown: str) -> None:
    package = wheel(objects=(elf_file(place),), layout=LAID_OUT)
    problem = Problem(path=shown, sentence="is bad")
    assert verdict_on(bad_library, package).problems == (problem,)
    known = KnownProblem(check="bad-library", reason="ours to fix", path=shown)
    verdict = verdict_on(bad_library, package, Profile(known_problems=(known,)))
    assert (verdict.problems, verdict.accepted[0].problem) == ((), problem)


def test_what_is_no_place_of_the_package_is_shown_as_it_is_named() -> None:
    package = wheel(layout=LAID_OUT)
    assert [problem.path for problem in verdict_on(names_no_place, package).problems] == [
        "demo-1.0.data/scripts/x",
        "wheel:dep:dep/x.so",
    ]
