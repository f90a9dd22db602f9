"""Extension modules that one Python imports, in a wheel that promises many."""

from __future__ import annotations

import pytest

from binary_checks.checks.metadata import version_bound_extension
from binary_checks.errors import NotApplicable
from binary_checks.model import (
    ElfFile,
    Format,
    Level,
    MalformedObject,
    Note,
    NotInspected,
    Problem,
)
from fixtures.values import elf_file, member, only, symbols, wheel

ABI3 = "demo-1.0-cp310-abi3-manylinux_2_17_x86_64.whl"
BOUND = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def module(path: str) -> ElfFile:
    return elf_file(path, exports=symbols("PyInit__native"))


@pytest.mark.parametrize(
    ("name", "path", "level"),
    [
        (ABI3, BOUND, Level.ERROR),
        ("demo-1.0-cp310-abi3-win_amd64.whl", "demo/_native.cp311-win_amd64.pyd", Level.ERROR),
        ("demo-1.0-py3-none-manylinux_2_17_x86_64.whl", BOUND, Level.ERROR),
        ("demo-1.0-py311-none-manylinux_2_17_x86_64.whl", BOUND, Level.WARNING),
    ],
)
def test_a_module_that_one_python_imports(name: str, path: str, level: Level) -> None:
    problem = only(Problem, version_bound_extension(wheel(name, objects=[module(path)])))
    assert (problem.path, problem.level) == (path, level)
    assert problem.sentence.startswith("is imported by Python 3.11 alone, but ")
    assert problem.sentence.endswith("promises others")


@pytest.mark.parametrize(
    ("tags", "packages", "level"),
    [
        ("py3-none-win_amd64", ("demo", "demo/_vendored/tool/_fast"), Level.WARNING),
        ("cp310-abi3-win_amd64", ("demo", "demo/_vendored/tool/_fast"), Level.ERROR),
        ("py3-none-win_amd64", ("demo/_vendored/tool/_fast",), Level.ERROR),
        ("py3-none-win_amd64", ("demo",), Level.ERROR),
        (
            "py3-none-win_amd64",
            ("demo", "demo/_vendored", "demo/_vendored/tool", "demo/_vendored/tool/_fast"),
            Level.ERROR,
        ),
    ],
)
def test_a_package_in_a_folder_that_is_none_is_imported_by_code_of_its_own(
    tags: str, packages: tuple[str, ...], level: Level
) -> None:
    members = [member(f"{folder}/__init__.py") for folder in packages]
    objects = [module("demo/_vendored/tool/_fast/_native.cp311-win_amd64.pyd")]
    package = wheel(f"demo-1.0-{tags}.whl", members=members, objects=objects)
    assert only(Problem, version_bound_extension(package)).level is level


def test_a_file_for_another_platform_is_left_to_another_check() -> None:
    paths = (f"demo/_native.cp311-{name}.pyd" for name in ("win32", "win_amd64"))
    package = wheel("demo-1.0-py3-none-win_amd64.whl", objects=map(module, paths))
    found = [each for each in version_bound_extension(package) if isinstance(each, Problem)]
    assert [each.path for each in found] == ["demo/_native.cp311-win_amd64.pyd"]


def test_a_module_for_each_python_from_the_oldest_on_is_noted_and_for_few_a_warning() -> None:
    oldest, *later = [module(BOUND.replace("311", each)) for each in ("310", "311", "312")]
    note = only(Note, version_bound_extension(wheel(ABI3, objects=[oldest, *later])))
    assert note.sentence == "is there for Python 3.10, 3.11, 3.12; later Pythons lack it"
    found = [*version_bound_extension(wheel(ABI3, objects=later))]
    assert [each.level for each in found if isinstance(each, Problem)] == [Level.WARNING] * 2


@pytest.mark.parametrize(
    "objects",
    [
        [module("demo/_native.abi3.so")],
        [module("demo/_native.so")],
        [module("demo/_native.pyd")],
        [module(BOUND), module("demo/_native.abi3.so")],
        [elf_file(BOUND)],
        [elf_file("demo/libdemo.so.1")],
    ],
)
def test_a_module_that_every_python_imports(objects: list[ElfFile]) -> None:
    assert list(version_bound_extension(wheel(ABI3, objects=objects))) == []


def test_a_wheel_for_one_python_may_be_bound_to_it() -> None:
    with pytest.raises(NotApplicable):
        list(version_bound_extension(wheel(objects=[module(BOUND)])))
    broken = MalformedObject(path=BOUND, format=Format.ELF, offset=0, reason="it is empty")
    assert only(NotInspected, version_bound_extension(wheel(ABI3, malformed=(broken,))))
