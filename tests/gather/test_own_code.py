"""A package's own code is read once more, for what it does with the objects of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.gather import linkage as own_code
from binary_checks.gather import member_contents
from binary_checks.model import CodeNames, Edge, Linkage
from fixtures.build_elf import ElfSymbol, build_elf
from fixtures.build_wheel import build_wheel

MODULE = "demo/_native.cpython-311-x86_64-linux-gnu.so"
INIT = (ElfSymbol("PyInit__native"),)
SITE = "lib/python3.11/site-packages"
OPENING = """
import ctypes, pathlib
ctypes.CDLL(pathlib.Path(__file__).parent / "libdemo.so")
"""


def build(folder: Path, code: str, *needed: str) -> Path:
    """A wheel with two extension modules and two libraries that need libodbc.so.2."""
    return build_wheel(
        folder,
        members={
            "demo/__init__.py": code,
            "demo/tests/__init__.py": '"libplugin.so"',
            MODULE: build_elf(exports=INIT, needed=needed),
            "demo/_core.abi3.so": build_elf(exports=(ElfSymbol("PyInit__core"),)),
            "demo/libdemo.so": build_elf(needed=("libodbc.so.2",)),
            "demo/plugins/libplugin.so": build_elf(needed=("libodbc.so.2",)),
        },
    )


def idle(path: Path) -> dict[str, str]:
    with examine(path) as examination:
        linkage = examination.get(Linkage)
        return {
            linkage.layout.shorten_label(each.path): each.reason for each in linkage.dispensable
        }


def test_code_is_read_for_what_it_opens(tmp_path: Path) -> None:
    with examine(build(tmp_path, OPENING)) as examination:
        path = f"{SITE}/demo/libdemo.so"
        assert examination.get(CodeNames) == CodeNames(named=frozenset({path}))


def test_what_code_opens_is_reached_and_what_only_tests_name_is_not(tmp_path: Path) -> None:
    assert set(idle(build(tmp_path, OPENING))) == {"demo/plugins/libplugin.so"}
    assert set(idle(build(tmp_path / "b", ""))) == {"demo/libdemo.so", "demo/plugins/libplugin.so"}


def test_an_extension_module_may_be_tried(tmp_path: Path) -> None:
    code = "try:\n    from demo import _native\nexcept ImportError:\n    pass\n"
    reason = "the package continues without it"
    assert idle(build(tmp_path, code, "libtbb.so.12")).get(MODULE) == reason
    assert MODULE not in idle(build(tmp_path / "b", code, "libc.so.6"))
    assert MODULE not in idle(build(tmp_path / "c", "import demo._native", "libtbb.so.12"))


def test_of_code_that_is_too_large_nothing_is_concluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_contents, "LARGEST", 10)
    path = build(tmp_path, OPENING)
    assert idle(path) == {}
    with examine(path) as examination:
        assert examination.get(CodeNames).unread.endswith("more than 10 are not read")


def test_code_that_is_not_read_may_load_what_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, library = build_elf(exports=INIT, needed=("libfar.so",)), build_elf(soname="libfar.so")
    members = {MODULE: module, "demo/lib/libfar.so": library, "demo/__init__.py": OPENING}
    path = build_wheel(tmp_path, members=members)
    monkeypatch.setattr(member_contents, "LARGEST", 10)
    with examine(path) as examination:
        verdicts = {verdict.check: verdict for verdict in judge(examination)}
    verdict = verdicts["load-order-dependent"]
    assert not verdict.problems
    (warning,) = verdict.warnings
    assert "may do (not read: demo/__init__.py: it has" in warning.sentence


def test_a_package_of_modules_alone_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_code.OwnCode, "_read_sources", None)
    native = build_elf(exports=INIT, needed=("libc.so.6",))
    path = build_wheel(tmp_path, members={MODULE: native, "demo/__init__.py": OPENING})
    with examine(path) as examination:
        assert examination.get(CodeNames) == CodeNames()
        assert [type(each) for each in examination.get(Linkage).edges] == [Edge]
