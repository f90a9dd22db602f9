"""A check is one function, declared by its signature and docstring."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from binary_checks.declaring import Option, check, find_checks, load_checks
from binary_checks.errors import ProfileError
from binary_checks.examination.declarations import require_sound_declaration
from binary_checks.model import (
    ElfFile,
    Finding,
    ImportReport,
    Linkage,
    MachOFile,
    Package,
    Wheel,
)
from binary_checks.reports.explanation import read_documentation
from fixtures.values import elf_file


@check
def needs_a_name(
    library: ElfFile | MachOFile, *, allowed: tuple[str, ...] = ("",)
) -> Iterator[str]:
    """A library has no name.

    Plugins need none.

    Why: nobody can link with it,
    and nobody will.
    Fix: give it one.
    """
    if library.name not in allowed:
        yield f"is called {library.name}"


@check(enabled=False)
def leans_on_others(package: Package, linkage: Linkage) -> Iterator[Finding]:
    """A package leans on others."""
    yield from ()


@check
def breaks_on_import(wheel: Wheel, report: ImportReport) -> Iterator[str]:
    """A package breaks."""
    yield from ()


def test_its_name_is_its_id_and_calling_it_judges_as_the_function_does() -> None:
    assert needs_a_name.id == "needs-a-name"
    assert needs_a_name.family == __name__.rpartition(".")[2]
    assert repr(needs_a_name) == "<check needs-a-name>"
    assert list(needs_a_name(elf_file(name="libx.so"))) == ["is called libx.so"]
    assert list(needs_a_name(elf_file(name="libx.so"), allowed=("libx.so",))) == []
    assert needs_a_name.enabled
    assert not leans_on_others.enabled


def test_its_parameters_are_what_it_runs_on_other_facts_and_its_options() -> None:
    assert needs_a_name.subjects == (ElfFile, MachOFile)
    assert needs_a_name.judges_objects
    assert needs_a_name.facts == ((ElfFile, MachOFile),)
    allowed = Option(name="allowed", annotation=tuple[str, ...], default=("",))
    assert needs_a_name.options == {"allowed": allowed}
    assert leans_on_others.subjects == (Package,)
    assert not leans_on_others.judges_objects
    assert leans_on_others.facts == ((Package,), (Linkage,))
    assert leans_on_others.options == {}
    assert not leans_on_others.runs_package
    assert breaks_on_import.runs_package, "it asks for the report of a probe"


def test_its_docstring_is_taken_apart() -> None:
    documentation = read_documentation(needs_a_name)
    assert documentation.title == "A library has no name."
    assert documentation.details == "Plugins need none."
    assert documentation.why == "nobody can link with it,\nand nobody will."
    assert documentation.fix == "give it one."
    documentation = read_documentation(leans_on_others)
    assert documentation.why == documentation.fix == ""


def test_every_check_is_found_once_sorted_by_family() -> None:
    module = types.ModuleType("mine")
    module.first = module.again = needs_a_name  # type: ignore[attr-defined]
    found = find_checks([module])
    assert found.count(needs_a_name) == 1
    assert list(found) == sorted(found, key=lambda check: (check.family, check.id))
    assert len(found) == len(find_checks()) + 1


def test_a_project_loads_checks_from_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "my_checks.py"
    path.write_text(
        "from collections.abc import Iterator\n"
        "from binary_checks import check\n"
        "from binary_checks.model import Wheel\n"
        "@check\n"
        "def no_license(wheel: Wheel) -> Iterator[str]:\n"
        "    '''A wheel has no licence.'''\n"
        "    yield 'none'\n"
    )
    module = load_checks(str(path), "my_checks_of_a_test")
    assert [item.id for item in find_checks([module]) if item.family == "my_checks_of_a_test"] == [
        "no-license"
    ]
    with pytest.raises(ImportError, match=r"checks\.toml: not a Python file"):
        load_checks(str(tmp_path / "checks.toml"), "none")


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("(wheel)", "parameter 'wheel' has no type"),
        ("(wheel: 'Whel')", "name 'Whel' is not defined"),
        ("()", "it has no parameter that names what it judges"),
        ("(wheel: str)", "<class 'str'> is not a fact of a package"),
        ("(wheel: list[int])", r"list\[int\] is not a fact of a package"),
        ("(wheel: Wheel, *, most: int)", "its option 'most' has no default"),
        ("(wheel: Wheel, **options)", "parameter 'options' has no type"),
        ("(*wheels: str)", "<class 'str'> is not a fact of a package"),
    ],
)
def test_a_signature_that_cannot_be_followed_is_the_users_mistake(
    signature: str, message: str
) -> None:
    names = {"check": check, "Wheel": Wheel, "__name__": "my_checks"}
    exec(f"@check\ndef mine{signature}: yield ''", names)
    with pytest.raises(ProfileError, match=f"^check mine: .*{message}"):
        require_sound_declaration(names["mine"], {})  # type: ignore[arg-type]


def test_a_sound_signature_is_no_mistake_and_counts_below_a_decorator() -> None:
    def judge(wheel: Wheel, *, most: int = 3) -> Iterator[str]:
        yield f"{wheel.name} {most}"

    @functools.wraps(judge)
    def wrapped(*args: Any, **options: Any) -> Iterator[str]:
        return judge(*args, **options)

    declared = check(wrapped)
    assert declared.facts == ((Wheel,),)
    assert declared.options == {"most": Option(name="most", annotation=int, default=3)}
    for sound in (declared, needs_a_name, leans_on_others, breaks_on_import):
        require_sound_declaration(sound, {})
