"""Growing touches one room: a module of each kind and a line, taken through a whole run."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from binary_checks import differences, objects, packages, places, probes, reports, sources, trees
from binary_checks.command import main
from binary_checks.documents.result import read_results
from binary_checks.errors import OUR_BUG, PackageError
from binary_checks.examination.run import examine
from binary_checks.model import Outcome, Package
from binary_checks.objects import Readable
from binary_checks.profile import Profile, leave_out_code
from fixtures.build_elf import build_elf
from tests.extensions import (
    box_difference,
    box_place,
    box_source,
    box_tree,
    list_report,
    rune_format,
    toy_kind,
)

TOY_KIND = Path(__file__).parent / "extensions" / "toy_kind.py"
CHECKS = Path(__file__).parent / "extensions" / "box_checks.py"
MEMBERS = {"TOY": "demo 1.0", "good": "RUNE oak", "bad": "RUNE oak raven"}


@pytest.fixture
def grown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line in each room's tuple."""
    rune = Readable(rune_format.RuneFile.format, (b"RUNE",), rune_format.__name__)
    weigh = "tests.extensions.weigh.reader"
    monkeypatch.setattr(objects, "READERS", (*objects.READERS, rune))
    monkeypatch.setattr(trees, "TREES", (*trees.TREES, box_tree))
    monkeypatch.setattr(packages, "KINDS", (*packages.KINDS, toy_kind))
    monkeypatch.setattr(sources, "SOURCES", (box_source, *sources.SOURCES))
    monkeypatch.setattr(places, "PLACES", (box_place.BoxPlace, *places.PLACES))
    monkeypatch.setattr(probes, "PROBES", (*probes.PROBES, weigh))
    toys = (*differences.MODULES, box_difference.__name__)
    monkeypatch.setattr(differences, "MODULES", toys)
    monkeypatch.setattr(reports, "REPORTS", (*reports.REPORTS, list_report.REPORT))


def pack(folder: Path, members: dict[str, str]) -> None:
    box = folder / "boxes" / "demo.toy"
    box.parent.mkdir()
    box.write_bytes(box_tree.MAGIC + json.dumps(members).encode())


@pytest.mark.usefixtures("grown")
def test_a_toy_of_each_goes_through_a_whole_run(pytester: pytest.Pytester) -> None:
    pack(pytester.path, MEMBERS)
    pytester.makefile(".toml", profile=f"checks = [{str(CHECKS)!r}]")
    options = ("--binary-profile", "profile.toml", "--binary-report", "list:list.txt")
    result = pytester.runpytest_inprocess("box:demo", *options, "--binary-sandbox", "off", "-rA")
    result.stdout.fnmatch_lines(["unlucky-rune: demo.toy: bad: needs raven"])
    listed = dict(line.split(" ", 2)[1:] for line in Path("list.txt").read_text().splitlines())
    assert listed["unlucky-rune"] == "failed"
    assert listed["empty-box"] == "passed"
    assert listed["heavy-box"] == "passed"
    assert result.ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.usefixtures("grown")
def test_its_checks_fail_where_they_should(pytester: pytest.Pytester) -> None:
    pack(pytester.path, {"TOY": "demo 1.0"})
    pytester.makefile(".toml", profile=f"checks = [{str(CHECKS)!r}]")
    result = pytester.runpytest_inprocess("box:demo", "--binary-profile", "profile.toml")
    result.stdout.fnmatch_lines(["empty-box: demo.toy: holds nothing but TOY"])


@pytest.mark.usefixtures("grown")
def test_two_toys_are_compared_by_differences_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    pack(tmp_path, MEMBERS)
    later = {"TOY": "demo 1.1", "bad": "RUNE oak raven elm"}
    (tmp_path / "boxes" / "later.toy").write_bytes(box_tree.MAGIC + json.dumps(later).encode())
    assert main(["diff", "box:demo", "box:later", "--fail-on", "break"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "break: texts: good: was taken out" in lines
    assert "change: woods: bad: needs elm" in lines


# A kind of package from outside: a file that only a profile names.


@pytest.fixture
def shop(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder whose profile names the file of the toy kind."""
    (pytester.path / "tools").mkdir()
    shutil.copy(TOY_KIND, pytester.path / "tools" / "toy_kind.py")
    pytester.makefile(".toml", profile='kinds = ["tools/toy_kind.py"]')
    return pytester


def pack_toy(folder: Path, about: str, runpath: str = "") -> None:
    library = build_elf(soname="libbear.so", needed=("libc.so.6",), runpath=runpath)
    with zipfile.ZipFile(folder / "bear.toy", "w") as archive:
        archive.writestr("TOY", about)
        archive.writestr("lib/libbear.so", library)


def judge_toy(shop: pytest.Pytester, *options: str) -> pytest.RunResult:
    profile = ("--binary-static", "--binary-profile", "profile.toml")
    return shop.runpytest_inprocess("bear.toy", *profile, *options)


def test_a_kind_that_a_profile_names_is_judged_by_our_checks_of_objects(
    shop: pytest.Pytester,
) -> None:
    pack_toy(shop.path, "bear 1.0 3", runpath="/home/me/build")
    report = "--binary-report", "json:result.json"
    result = judge_toy(shop, "--strict-markers", "--binary-strict", *report)
    result.stdout.fnmatch_lines(["absolute-search-path: bear.toy: lib/libbear.so: looks for *"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (package,) = read_results(shop.path / "result.json").packages
    assert {entry.check for entry in package.entries if entry.outcome is Outcome.FAILED} == {
        "absolute-search-path"
    }
    assert package.file_name == "bear.toy"


def test_a_healthy_one_passes_the_checks_of_objects_and_is_unknown_without_the_profile(
    shop: pytest.Pytester,
) -> None:
    pack_toy(shop.path, "bear 1.0 3")
    result = judge_toy(shop, "-rA")
    result.stdout.fnmatch_lines(["PASSED bear.toy::absolute-search-path"])
    assert result.ret == pytest.ExitCode.OK
    result = shop.runpytest_inprocess("bear.toy", "--binary-static")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("about", "line", "status"),
    [
        ("bear 1.0", "toy-without-age: bear.toy: TOY states no age", pytest.ExitCode.TESTS_FAILED),
        (
            "bear",
            "unreadable-package: bear.toy: TOY does not say name and version",
            pytest.ExitCode.TESTS_FAILED,
        ),
        (
            "bear 1.0 three",
            "*kinds file *toy_kind.py: read: ValueError: invalid literal*",
            OUR_BUG,
        ),
    ],
)
def test_its_own_check_finds_a_fault_and_its_reader_may_refuse_or_fail(
    shop: pytest.Pytester, about: str, line: str, status: int
) -> None:
    pack_toy(shop.path, about)
    result = judge_toy(shop)
    result.stdout.fnmatch_lines([line])
    assert result.ret == status


@pytest.mark.parametrize(
    ("code", "line"),
    [
        (None, "*tools/toy_kind.py: FileNotFoundError: *"),
        ("def (", "*tools/toy_kind.py: SyntaxError: *"),
        ("import nothing_there", "*tools/toy_kind.py: ModuleNotFoundError: *"),
        ("", "*tools/toy_kind.py: it has no function 'recognises'"),
        ("def recognises(label): ...", "*recognises: it must accept recognises(label, look)"),
        pytest.param(
            f"{TOY_KIND.read_text('utf-8')}\ndef recognises(label, look): return label[99]\n",
            "*: recognises: IndexError: *",
            id="recognises",
        ),
    ],
)
def test_a_kind_that_cannot_be_loaded_is_one_line(
    shop: pytest.Pytester, code: str | None, line: str
) -> None:
    pack_toy(shop.path, "bear 1.0 3")
    file = shop.path / "tools" / "toy_kind.py"
    file.unlink()
    if code is not None:
        file.write_text(code)
    result = judge_toy(shop)
    result.stderr.fnmatch_lines([f"ERROR: kinds file {line}"])
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_profile_that_was_found_adds_no_kind_to_the_command(
    shop: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = Profile(kinds=(Path("tools/toy_kind.py"),), enable=frozenset({"toy-without-age"}))
    trusted = leave_out_code(profile, ())
    assert (trusted.kinds, trusted.enable) == ((), frozenset())
    assert trusted.left_out == ("toy_kind.py",)
    monkeypatch.chdir(shop.path)
    pack_toy(shop.path, "bear 1.0 3")
    (shop.path / "pyproject.toml").write_text(
        '[tool.binary_checks]\nkinds = ["tools/toy_kind.py"]\n'
    )
    with pytest.raises(PackageError), examine("bear.toy") as facts:
        facts.get(Package)
    with examine("bear.toy", profile="profile.toml") as facts:
        assert facts.get(Package).name == "bear"
