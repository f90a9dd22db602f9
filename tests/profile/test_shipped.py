"""The shipped profiles are valid, and so is every line of Python in them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import binary_checks
from binary_checks.checks.expected import absent_library
from binary_checks.declaring import find_checks
from binary_checks.model import GpuRequest, SnippetRequest
from binary_checks.profile import Profile, load_profile, validate
from fixtures.values import elf_file, wheel


def read(name: str) -> Profile:
    return validate(load_profile(name), find_checks())


SHIPPED = Path(binary_checks.__file__).parent / "profile" / "shipped"


@pytest.mark.parametrize("name", sorted(path.stem for path in SHIPPED.iterdir()))
def test_a_shipped_profile_is_valid_and_so_are_its_programs(name: str) -> None:
    profile = read(name)
    assert profile.source == name
    snippets = profile.requests.get(SnippetRequest, SnippetRequest())
    gpu = profile.requests.get(GpuRequest, GpuRequest())
    assert isinstance(snippets, SnippetRequest)
    assert isinstance(gpu, GpuRequest)
    for code in (*snippets.code.values(), *gpu.snippets.values()):
        assert ast.parse(code).body
    table = profile.probes.get("snippets", {})
    prints = profile.options.get("snippet-fails", {}).get("prints", ())
    assert {*table.get("only", ()), *prints} <= table.get("code", {}).keys()


def test_the_page_on_torch_names_every_snippet_and_every_check_that_the_profile_sets() -> None:
    profile = read("torch")
    page = (Path(__file__).parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    named = {*profile.options, *profile.probes["snippets"]["code"]}
    assert {name for name in named if f"`{name}`" not in page} == {"snippet-fails"}


@pytest.mark.parametrize("folder", ["torch/lib/", "lib/"], ids=["wheel", "libtorch"])
def test_torchs_libraries_are_where_its_wheels_and_its_archives_have_them(folder: str) -> None:
    required = read("torch").options["absent-library"]["required"]
    names = ("libgomp.so.1", "libc10.so", "libtorch_cpu.so")
    objects = [elf_file(f"{folder}{name}") for name in names]
    assert list(absent_library(wheel(objects=objects), required=required)) == []
    assert len(list(absent_library(wheel(objects=objects[1:]), required=required))) == 1
    elsewhere = [*objects[1:], elf_file("torch.libs/libgomp.so.1")]
    assert len(list(absent_library(wheel(objects=elsewhere), required=required))) == 1
