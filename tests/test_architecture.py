"""The house rules that can be measured, held in the test run."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

import binary_checks
from binary_checks import model
from binary_checks.declaring import find_checks

ROOT = Path(__file__).parents[1]
PACKAGE = Path(binary_checks.__file__).parent
OURS = sorted(PACKAGE.rglob("*.py"))
FILES = [*OURS, *sorted((ROOT / "fixtures").rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]

PARSERS = ("elftools", "lief", "macholib", "pefile", "isal")
TWINS = {"elf", "macho", "pe", "wasm", "device", "glibc", "musl", "dyld"} | {"macos", "windows"}
READERS = ("elf", "macho", "pe", "wasm")
SHARED_BY_READERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("header", READERS, ("read_header", "architecture_of")),
    ("header", READERS, ("read_header", "read_sections")),
    (
        "header",
        ("elf", "pe"),
        (
            "Section",
            "read_sections",
            "is_debug_companion",
            "find_extents",
            "find_read_only",
            "MappedImage",
        ),
    ),
    ("symbols", READERS, ()),
    ("symbols", ("elf", "macho"), ("read_symbols",)),
    ("signature", ("macho", "pe"), ()),
    ("reader", READERS, ("read",)),
    ("reader", ("elf", "pe"), ("find_wrappers", "read")),
    ("reader", ("elf", "wasm"), ("find_refusals", "read")),
)
"""File, the readers that share its thought, and what stands in it in this order."""
MEANINGLESS = {"utils", "util", "helpers", "helper", "manager", "common", "misc", "data", "info"}
SCRIPTS = sorted(
    [*(PACKAGE / "probes").glob("*/script.py"), PACKAGE / "probes" / "process.py"]
    + [path for path in (PACKAGE / "places" / "scripts").glob("*.py") if path.name != "__init__.py"]
)
FACTS = [
    item
    for item in vars(model).values()
    if isinstance(item, type) and dataclasses.is_dataclass(item)
]


def named(path: Path) -> str:
    base = PACKAGE.parent if path.is_relative_to(PACKAGE) else ROOT
    return path.relative_to(base).as_posix()


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@functools.cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


# The format is ruff's. Parsing every file takes several seconds in each process that tests.
ANY_IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import|import ([\w., ]+))", re.MULTILINE)
PUBLIC_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
DOCSTRING = re.compile(r'(?:#.*\n|\n)*r?"""')


@functools.cache
def imported(path: Path) -> frozenset[str]:
    """Return the top-level name of every import, wherever in the file it stands."""
    names: set[str] = set()
    for module, modules in ANY_IMPORT.findall(read(path)):
        names.update(re.split(r"[ .]", each.strip())[0] for each in (module or modules).split(","))
    return frozenset(names)


def test_every_module_has_its_place_in_the_layers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


def test_a_parser_library_is_imported_by_one_room() -> None:
    importers = {
        library: {named(path).split("/")[1] for path in OURS if library in imported(path)}
        for library in PARSERS
    }
    assert {} == {library: rooms for library, rooms in importers.items() if len(rooms) > 1}


def test_only_the_plugin_and_the_command_know_pytest_and_of_it_what_is_public() -> None:
    private = [named(path) for path in OURS if "_pytest" in imported(path)]
    assert private == []
    knowing = [path for path in OURS if {"pytest", "xdist", "pluggy"} & imported(path)]
    rooms = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in knowing}
    assert rooms == {"command", "plugin"}


IMPORT = re.compile(r"^ *from (binary_checks\.[\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)
"""An import of ours."""


def find_doors() -> Iterator[tuple[str, Path, frozenset[str]]]:
    """Yield each room that exports names: its module, its folder, and these names."""
    for path in OURS:
        if path.name != "__init__.py" or path.parent == PACKAGE:
            continue
        exported = [
            node.value
            for node in parse(path).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ]
        if exported:
            room = named(path.parent).replace("/", ".")
            yield room, path.parent, frozenset(ast.literal_eval(exported[0]))


def test_names_that_a_room_exports_are_imported_from_the_room() -> None:
    """So that files of the room can be merged and split without changing others."""
    doors = list(find_doors())
    assert doors
    past = {
        f"{named(path)}: {module}.{name}"
        for path in FILES
        for module, names in IMPORT.findall(read(path))
        for room, folder, exported in doors
        if module.startswith(f"{room}.") and folder not in path.parents
        for name in re.findall(r"\w+", names)
        if name in exported
    }
    assert past == set()


def test_a_file_has_a_docstring_and_a_name() -> None:
    assert [] == [
        named(path)
        for path in FILES
        if not path.is_relative_to(ROOT / "tests") and not DOCSTRING.match(read(path))
    ]
    assert [] == [named(path) for path in FILES if path.stem in MEANINGLESS]


def test_no_public_class_name_stands_twice() -> None:
    """But among twins, which look alike on purpose."""
    places: dict[str, list[str]] = {}
    for path in OURS:
        if path.parent.name not in TWINS:
            for name in PUBLIC_CLASS.findall(read(path)):
                places.setdefault(name, []).append(named(path))
    assert {} == {name: paths for name, paths in places.items() if len(paths) > 1}


def test_twins_have_the_same_functions_in_the_same_order() -> None:
    kinds = (ast.FunctionDef, ast.ClassDef)
    for name, twins, shared in SHARED_BY_READERS:
        for twin in twins:
            body = parse(PACKAGE / "objects" / twin / f"{name}.py").body
            found = [node.name for node in body if isinstance(node, kinds)]
            assert [each for each in found if each in shared] == list(shared), (twin, name)


def test_no_two_readers_have_a_file_of_one_name_by_chance() -> None:
    places: dict[str, set[str]] = {}
    for twin in READERS:
        for path in (PACKAGE / "objects" / twin).glob("*.py"):
            places.setdefault(path.stem, set()).add(twin)
    shared = {name: twins for name, twins in places.items() if len(twins) > 1}
    del shared["__init__"]
    stated: dict[str, set[str]] = {}
    for name, twins, _ in SHARED_BY_READERS:
        stated.setdefault(name, set()).update(twins)
    assert shared == stated


GATHERING = ("gather", "loaders", "objects", "packages", "places", "probes", "sources", "trees")


def test_what_gathers_names_no_check() -> None:
    """Not even in a string: what is gathered stands in requests, and checks judge what came."""
    ids = {check.id for check in find_checks()}
    any_id = re.compile("|".join(ids))
    named_there = {
        (named(path), text)
        for path in OURS
        if path.relative_to(PACKAGE).parts[0] in GATHERING and any_id.search(read(path))
        for text in (node.value for node in ast.walk(parse(path)) if isinstance(node, ast.Constant))
        if isinstance(text, str) and any(check_id in text for check_id in ids)
    }
    assert set() == named_there


def test_a_probe_is_one_self_contained_script_in_python_3_8() -> None:
    for path in SCRIPTS:
        ast.parse(read(path), str(path), feature_version=(3, 8))
    ours = {"binary_checks", *(path.stem for path in SCRIPTS)}
    assert [] == [named(path) for path in SCRIPTS if not ours.isdisjoint(imported(path))]


def test_facts_are_frozen() -> None:
    assert [] == [kind.__name__ for kind in FACTS if not kind.__dataclass_params__.frozen]
    assert [] == [kind.__name__ for kind in FACTS if "__slots__" not in vars(kind)]
    by_position = (
        f"{kind.__name__}.{field.name}"
        for kind in FACTS
        for field in dataclasses.fields(kind)
        if not field.kw_only
    )
    assert [] == [*by_position]
