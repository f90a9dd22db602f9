"""What the code of a package, and of what it imports, loads first is there for its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from binary_checks import examine, judge
from binary_checks.checks.linkage.needed_libraries import missing_library
from binary_checks.checks.symbols import undefined_symbol
from binary_checks.model import Linkage, Package
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel

NATIVE = "demo/_native.cpython-311-x86_64-linux-gnu.so"


def torch(folder: Path) -> Path:
    members = {
        "torch/__init__.py": "from torch._C import *\n",
        "torch/_C.cpython-311-x86_64-linux-gnu.so": build_elf(
            needed=("libc10.so",), runpath="$ORIGIN/lib", exports=(ElfSymbol("PyInit__C"),)
        ),
        "torch/lib/libc10.so": build_elf(
            soname="libc10.so", exports=(ElfSymbol("_ZN3c103getERKSs"),)
        ),
    }
    return build_wheel(folder, name="torch", version="2.0", members=members)


def demo(folder: Path, init: str, *imports: str, tag: str = "cp311-cp311") -> Path:
    native = build_elf(
        needed=("libc10.so",),
        exports=(ElfSymbol("PyInit__native"),),
        imports=tuple(map(ElfSymbol, imports)),
    )
    members = {"demo/__init__.py": init, NATIVE: native}
    tags = (f"{tag}-manylinux_2_17_x86_64",)
    return build_wheel(folder, members=members, tags=tags, requires=("torch>=2",))


def problems(wheel: Path, *companions: Path) -> list[str]:
    with examine(wheel, companions=companions) as facts:
        return [
            f"{verdict.check}: {problem.sentence}"
            for verdict in judge(facts)
            for problem in verdict.problems
            if verdict.check in {"load-order-dependent", "missing-library", "undefined-symbol"}
        ]


def test_a_library_of_what_the_package_imports_first_is_found(tmp_path: Path) -> None:
    wheel = demo(tmp_path / "dist", "import torch\nfrom demo import _native\n")
    assert problems(wheel, torch(tmp_path)) == []
    with examine(wheel, companions=[torch(tmp_path)]) as facts:
        linkage = facts.get(Linkage)
    found = {edge.needed: linkage.show(edge.resolved or "") for edge in linkage.edges}
    assert found["libc10.so"] == "wheel:torch:torch/lib/libc10.so"


def test_wheels_of_different_pythons_lie_in_one_site_packages(tmp_path: Path) -> None:
    wheel = demo(tmp_path / "dist", "import torch\n", tag="cp39-abi3")
    assert not [line for line in problems(wheel, torch(tmp_path)) if "libc10" in line]


@pytest.mark.parametrize("init", ["", "from demo import _native\nimport torch\n"])
def test_one_that_nothing_has_imported_yet_is_not(tmp_path: Path, init: str) -> None:
    (problem,) = problems(demo(tmp_path / "dist", init), torch(tmp_path))
    assert problem.startswith("load-order-dependent: needs libc10.so and does not find it")


def test_without_the_wheel_it_is_not_inspected(tmp_path: Path) -> None:
    assert problems(demo(tmp_path / "dist", "import torch\n")) == []


def test_a_symbol_of_the_other_abi_is_found_in_what_is_imported(tmp_path: Path) -> None:
    new = "_ZN3c103getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    (problem,) = problems(demo(tmp_path / "dist", "import torch\n", new), torch(tmp_path))
    assert "wheel:torch:torch/lib/libc10.so has it for the old std::string" in problem
    old = "_ZN3c103getERKSs"
    assert problems(demo(tmp_path / "dist", "import torch\n", old), torch(tmp_path)) == []


def test_what_the_package_opens_first_itself_is_found(tmp_path: Path) -> None:
    init = (
        "import ctypes, os\n"
        "ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'lib', 'libc10.so'))\n"
        "from demo import _native\n"
    )
    own = {
        "demo/lib/libc10.so": build_elf(soname="libc10.so"),
        NATIVE: build_elf(needed=("libc10.so",), exports=(ElfSymbol("PyInit__native"),)),
    }
    opened = build_wheel(tmp_path, members={"demo/__init__.py": init, **own})
    assert problems(opened) == []
    never = build_wheel(tmp_path, members={"demo/__init__.py": "", **own})
    assert len(problems(never)) == 1


CUDA = "libcudart.so.13"
TORCHES = ("_ZN3c104lostEv", "cudaMalloc")


def judge_lines(wheel: Path, *companions: Path) -> list[str]:
    """What is wrong, and what was not inspected, of libraries and of symbols."""
    with examine(wheel, companions=companions) as facts:
        linkage, package = facts.get(Linkage), facts.get(Package)
    found = (*missing_library(linkage, package), *undefined_symbol(linkage, package))
    return [
        f"{each.path and package.layout.shorten(each.path)}: {each.sentence}"
        for each in found
        if not isinstance(each, str)
    ]


def extension(folder: Path, *, requires: tuple[str, ...] = ("torch>=2",)) -> Path:
    """Two modules of a CUDA build, which find libc10.so and CUDA's runtime once torch is loaded."""
    native = build_elf(
        needed=("libc10.so", CUDA),
        exports=(ElfSymbol("PyInit__native"), ElfSymbol("PyInit__other")),
        imports=tuple(map(ElfSymbol, TORCHES)),
    )
    members: dict[str, Any] = {
        "demo/__init__.py": "import torch\nfrom demo import _native, _other\n",
        NATIVE: native,
        NATIVE.replace("_native", "_other"): native,
    }
    return build_wheel(folder, members=members, requires=requires)


def cuda_torch(folder: Path) -> Path:
    with_cuda = build_elf(
        soname="libc10.so", needed=(CUDA,), exports=(ElfSymbol("_ZN3c103getERKSs"),)
    )
    members: dict[str, Any] = {
        "torch/__init__.py": "from torch._C import *\n",
        "torch/_C.cpython-311-x86_64-linux-gnu.so": build_elf(
            needed=("libc10.so",), runpath="$ORIGIN/lib", exports=(ElfSymbol("PyInit__C"),)
        ),
        "torch/lib/libc10.so": with_cuda,
    }
    requires = ("nvidia-cuda-runtime==13.2.*",)
    return build_wheel(folder, name="torch", version="2.0", members=members, requires=requires)


def test_without_torch_one_line_a_library_says_so(tmp_path: Path) -> None:
    assert judge_lines(extension(tmp_path)) == [
        f"{NATIVE}: needs libc10.so, {CUDA}, which a required wheel, perhaps "
        "torch, may ship (it has no search path); give it with --binary-with",
        f"{NATIVE.replace('_native', '_other')}: needs libc10.so, {CUDA}, which a "
        "required wheel, perhaps torch, may ship (it has no search path); give it with "
        "--binary-with",
        ": 4 undefined symbols of 2 files could not be looked up: libc10.so is not found",
    ]


@pytest.mark.parametrize("requires", [("torch>=2",), ()])
def test_with_torch_alone_its_symbols_are_judged_without_cuda_s_wheels(
    tmp_path: Path, requires: tuple[str, ...]
) -> None:
    lines = judge_lines(extension(tmp_path / "dist", requires=requires), cuda_torch(tmp_path))
    assert [line for line in lines if "_native" in line and "has 1 undefined" in line] == [
        f"{NATIVE}: has 1 undefined symbol (_ZN3c104lostEv): the torch given "
        "beside it does not have it; build it for that one"
    ]
    assert ": 2 undefined symbols of 2 files could not be looked up: " in "".join(
        line for line in lines if "could not" in line
    )
    whose = "a required" if requires else "another"
    assert f"needs {CUDA}, which {whose} wheel, perhaps nvidia-cuda-runtime, may ship" in lines[0]


def test_a_library_that_no_package_beside_would_bring_is_still_missing(tmp_path: Path) -> None:
    native = build_elf(
        needed=("libc10.so", "libother.so.1"), exports=(ElfSymbol("PyInit__native"),)
    )
    members: dict[str, Any] = {
        "demo/__init__.py": "import torch\nfrom demo import _native\n",
        NATIVE: native,
    }
    (line,) = judge_lines(build_wheel(tmp_path / "dist", members=members), cuda_torch(tmp_path))
    assert "needs libother.so.1, which neither the package, nor a given wheel" in line
