"""What a package imports has loaded its libraries; what its own code does is known by its words."""

from __future__ import annotations

from collections.abc import Sequence
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


def torch(folder: Path, needed: Sequence[str] = (), requires: Sequence[str] = ()) -> Path:
    members: dict[str, str | bytes] = {
        "torch/__init__.py": "from torch._C import *\n",
        "torch/_C.cpython-311-x86_64-linux-gnu.so": build_elf(
            needed=("libc10.so",), runpath="$ORIGIN/lib", exports=(ElfSymbol("PyInit__C"),)
        ),
        "torch/lib/libc10.so": build_elf(
            soname="libc10.so", needed=needed, exports=(ElfSymbol("_ZN3c103getERKSs"),)
        ),
    }
    return build_wheel(folder, name="torch", version="2.0", members=members, requires=requires)


def demo(
    folder: Path,
    init: str,
    *imports: str,
    tag: str = "cp311-cp311",
    needed: Sequence[str] = ("libc10.so",),
) -> Path:
    native = build_elf(
        needed=needed,
        exports=(ElfSymbol("PyInit__native"),),
        imports=tuple(map(ElfSymbol, imports)),
    )
    members = {"demo/__init__.py": init, NATIVE: native}
    tags = (f"{tag}-manylinux_2_17_x86_64",)
    return build_wheel(folder, members=members, tags=tags, requires=("torch>=2",))


def problems(wheel: Path, *companions: Path, kind: str = "problems") -> list[str]:
    with examine(wheel, companions=companions) as facts:
        return [
            f"{verdict.check}: {problem.sentence}"
            for verdict in judge(facts)
            for problem in getattr(verdict, kind)
            if verdict.check in {"load-order-dependent", "missing-library", "undefined-symbol"}
        ]


def test_a_library_of_what_the_package_imports_first_is_found_and_not_looked_for_without_it(
    tmp_path: Path,
) -> None:
    wheel = demo(tmp_path / "dist", "import torch\nfrom demo import _native\n")
    assert problems(wheel) == problems(wheel, torch(tmp_path)) == []
    # wheels of different Pythons lie in one site-packages
    stable = demo(tmp_path / "stable", "import torch\n", tag="cp39-abi3")
    assert not [line for line in problems(stable, torch(tmp_path)) if "libc10" in line]
    with examine(wheel, companions=[torch(tmp_path)]) as facts:
        linkage = facts.get(Linkage)
    found = {
        edge.needed: linkage.layout.shorten_label(edge.resolved or "") for edge in linkage.edges
    }
    assert found["libc10.so"] == "wheel:torch:torch/lib/libc10.so"


@pytest.mark.parametrize("init", ["", "import torchvision\n"])
def test_one_of_what_nothing_imports_is_not(tmp_path: Path, init: str) -> None:
    (problem,) = problems(demo(tmp_path / "dist", init), torch(tmp_path))
    assert problem.startswith("load-order-dependent: needs libc10.so and does not find it")


@pytest.mark.parametrize(
    ("init", "word"),
    [
        ("import ctypes\n", "ctypes"),
        ("os.environ['PATH'] += here\n", "environ['PATH']"),
        ("os.environ['PYTHONPATH'] += here\n", ""),
    ],
)
def test_where_the_package_s_own_code_may_load_it_that_is_a_warning(
    tmp_path: Path, init: str, word: str
) -> None:
    wheel, other = demo(tmp_path / "dist", init), torch(tmp_path)
    assert len(problems(wheel, other)) == (0 if word else 1)
    found = problems(wheel, other, kind="warnings")
    assert [line.partition("as the package's own code")[2] for line in found] == (
        [f" may do ({word} in demo/__init__.py)"] if word else []
    )


def test_a_symbol_of_the_other_abi_is_found_in_what_is_imported(tmp_path: Path) -> None:
    new = "_ZN3c103getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    (problem,) = problems(demo(tmp_path / "dist", "import torch\n", new), torch(tmp_path))
    assert "wheel:torch:torch/lib/libc10.so has it for the old std::string" in problem
    old = "_ZN3c103getERKSs"
    assert problems(demo(tmp_path / "dist", "import torch\n", old), torch(tmp_path)) == []


def test_what_lies_nowhere_is_an_error_whatever_the_code_says(tmp_path: Path) -> None:
    wheel = demo(tmp_path / "dist", "import ctypes\nimport torch\n", needed=("liblost.so",))
    (problem,) = problems(wheel, torch(tmp_path))
    assert problem.startswith("missing-library: needs liblost.so")


def test_a_library_of_the_package_itself_is_found_by_its_own_code_at_most(tmp_path: Path) -> None:
    own = {
        "demo/lib/libc10.so": build_elf(soname="libc10.so"),
        NATIVE: build_elf(needed=("libc10.so",), exports=(ElfSymbol("PyInit__native"),)),
    }
    opened = build_wheel(tmp_path, members={"demo/__init__.py": "import ctypes\n", **own})
    assert problems(opened) == []
    assert len(problems(opened, kind="warnings")) == 1
    never = build_wheel(tmp_path, members={"demo/__init__.py": "import demo.lib\n", **own})
    assert len(problems(never)) == 1


EVERYWHERE = "import sys, os\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)\nimport torch\n"
SYMBOL = "_ZN3c103getERKSs"


def lender(folder: Path, init: str) -> Path:
    return demo(folder, init, SYMBOL, "lost", needed=())


def test_symbols_that_a_given_wheel_lends_to_the_process_are_a_warning(tmp_path: Path) -> None:
    other = torch(tmp_path)
    wheel = lender(tmp_path / "a", EVERYWHERE)
    (warning,) = problems(wheel, other, kind="warnings")
    assert SYMBOL in warning
    (problem,) = problems(wheel, other)
    assert "lost" in problem
    assert len(problems(lender(tmp_path / "b", "import torch\n"), other)) == 2


def test_those_of_a_required_wheel_that_was_not_given_are_not_inspected(tmp_path: Path) -> None:
    wheel = lender(tmp_path / "a", EVERYWHERE)
    assert problems(wheel) == []
    (gap,) = problems(wheel, kind="not_inspected")
    assert "uses RTLD_GLOBAL, so torch may define them" in gap
    (problem,) = problems(lender(tmp_path / "b", "import torch\n"))
    assert "has 2 undefined symbols" in problem


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
    return torch(folder, needed=(CUDA,), requires=("nvidia-cuda-runtime==13.2.*",))


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
        f"{NATIVE}: has 1 undefined symbol (_ZN3c104lostEv): the torch that was "
        "given does not have it; build this file for that torch"
    ]
    assert ": 2 undefined symbols of 2 files could not be looked up: " in "".join(
        line for line in lines if "could not" in line
    )
    whose = "a required" if requires else "another"
    assert f"needs {CUDA}, which {whose} wheel, perhaps nvidia-cuda-runtime, may ship" in lines[0]


def test_a_library_that_no_package_beside_would_bring_is_still_missing(tmp_path: Path) -> None:
    init = "import torch\nfrom demo import _native\n"
    wheel = demo(tmp_path / "dist", init, needed=("libc10.so", "libother.so.1"))
    (line,) = judge_lines(wheel, cuda_torch(tmp_path))
    assert "needs libother.so.1, which neither the package, nor a given wheel" in line
