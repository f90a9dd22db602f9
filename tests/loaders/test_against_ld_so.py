"""The simulation agrees with this host's own ld.so on small random layouts."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from binary_checks import objects
from binary_checks.loaders import Image, Lookups, glibc, load
from binary_checks.loaders.elf import ElfLoader, look_up
from binary_checks.model import ElfFile
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.linking import target
from fixtures.values import wheel

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc",
    reason="needs glibc's ld.so on x86_64",
)

ROOT = "pkg/root.so"
FOLDERS = ("pkg", "pkg/a")
NAMES = ("liba.so", "libb.so", "libc1.so")
ELEMENTS = ("$ORIGIN", "${ORIGIN}/a", "$ORIGIN/..", "$ORIGIN/../a", "/nowhere", "", "$ORIGINAL")


class Bytes:
    """The bytes of a file, as a ByteSource."""

    def __init__(self, content: bytes) -> None:
        self.content, self.size = content, len(content)

    def read(self, offset: int, length: int) -> bytes:
        return self.content[offset : offset + length]


search_path = st.none() | st.lists(st.sampled_from(ELEMENTS), max_size=3).map(":".join)
needed = st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)
symbol = st.sampled_from(("f", "g", "h"))


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Return up to five libraries: what each is built from, by path."""
    places = st.tuples(st.sampled_from(FOLDERS), st.sampled_from(NAMES)).map("/".join)
    files = draw(st.lists(places, min_size=2, max_size=4, unique=True))
    return {path: draw(recipe(path)) for path in (ROOT, *files)}


@st.composite
def recipe(draw: st.DrawFn, path: str) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    return {
        "soname": draw(st.sampled_from(("", name, "libb.so"))) if path != ROOT else "",
        "needed": draw(needed),
        "rpath": draw(search_path),
        "runpath": draw(search_path),
        "imports": sorted(draw(st.sets(symbol, max_size=1))),
        "exports": sorted(draw(st.sets(symbol, max_size=2))),
    }


def build(recipe: dict[str, Any]) -> bytes:
    symbols = {side: [ElfSymbol(name) for name in recipe[side]] for side in ("imports", "exports")}
    return build_elf(**{**recipe, **symbols})


def judge(files: dict[str, bytes]) -> tuple[Image[ElfFile], Lookups]:
    """Load only the root, as ld.so is told to."""
    found = [item for path in files for item in objects.read_objects(path, Bytes(files[path]))]
    readable = tuple(item for item in found if isinstance(item, ElfFile))
    system = target(libraries=frozenset(), library_data={}, interpreter=None)
    loader = ElfLoader(wheel(objects=readable), (), system, glibc)
    (root,) = loader.layout.find("pkg", "root.so")
    image = load(root, loader)
    return image, look_up([image], loader)


def install(files: dict[str, bytes], folder: Path) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)


def trace(folder: Path) -> tuple[dict[str, str | None], set[str]]:
    """Return what ld.so makes of each needed name, and the symbols that stay undefined."""
    environment = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1", "LD_BIND_NOW": "1"}
    neutral = folder / "cwd"
    neutral.mkdir(exist_ok=True)
    done = subprocess.run(
        ["/lib64/ld-linux-x86-64.so.2", str(folder / ROOT)],
        env=environment, capture_output=True, text=True, check=False, cwd=neutral,
    )  # fmt: skip
    mapped: dict[str, str | None] = {}
    for line in done.stdout.splitlines():
        name, arrow, where = line.strip().partition(" => ")
        if arrow:
            path = where.partition(" (0x")[0]
            found = None if path == "not found" else os.path.relpath(path, folder)
            mapped[name] = found if found is None else os.path.normpath(found)
    text = done.stdout + done.stderr
    undefined = {
        line.split()[2].rstrip(",") for line in text.splitlines() if "undefined symbol:" in line
    }
    return mapped, undefined


@pytest.mark.slow
@settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(layout=layouts())
def test_all_is_found_where_ld_so_finds_it(
    layout: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = {path: build(recipe) for path, recipe in layout.items()}
    folder = tmp_path_factory.mktemp("layout")
    install(files, folder)
    mapped, undefined = trace(folder)
    image, lookups = judge(files)
    loaded = {item.path for item in image.objects}
    missing = {edge.needed for edge in image.edges if edge.resolved is None}
    found = {edge.needed for edge in image.edges if edge.resolved is not None}
    # When it only traces, ld.so considers a name that one object lacks as found for all others.
    assume(missing.isdisjoint(found))
    assert {path for path in mapped.values() if path} == loaded - {ROOT}
    assert {name for name, path in mapped.items() if path is None} == missing
    if not missing:
        assert {item.name for item in lookups.unresolved} == undefined
