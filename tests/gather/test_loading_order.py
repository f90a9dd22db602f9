"""What the code of a package, and of what it imports, loads first is there for its objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.model import Linkage
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
