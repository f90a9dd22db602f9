"""A package's own code is read once more, for what it does with the package's objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from binary_checks import examine, judge
from binary_checks.gather import member_contents
from binary_checks.gather.linkage import OwnCode
from binary_checks.model import CodeNames, Edge, ImportOpenings, Linkage
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


def test_what_code_opens_is_reached_and_what_only_tests_name_is_not(tmp_path: Path) -> None:
    opening = build(tmp_path, OPENING)
    with examine(opening) as examination:
        path = f"{SITE}/demo/libdemo.so"
        assert examination.get(CodeNames) == CodeNames(named=frozenset({path}))
    assert set(idle(opening)) == {"demo/plugins/libplugin.so"}
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
    monkeypatch.setattr(OwnCode, "_read_sources", None)
    native = build_elf(exports=INIT, needed=("libc.so.6",))
    path = build_wheel(tmp_path, members={MODULE: native, "demo/__init__.py": OPENING})
    with examine(path) as examination:
        assert examination.get(CodeNames) == CodeNames()
        assert [type(each) for each in examination.get(Linkage).edges] == [Edge]


# What a package opens by its path, and whether its import does, found without running it.

LIBRARIES = ("demo/_C.so", "demo/lib/libdemo_cuda.so", "demo/libother.so", "demo/libpart_gpu.so")
DIRECT = """
import ctypes, os
{0}ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libdemo_cuda.so"))
"""
TORCHVISIONS = """
import importlib.machinery, os, torch

def _find(name):
    details = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    finder = importlib.machinery.FileFinder(os.path.dirname(__file__), details)
    return finder.find_spec(name).origin

def _load(name):
    torch.ops.load_library(_find(name))
"""
FBGEMMS = """
import os, torch
names = {"default": ["_C", "libdemo_cuda"]}

def _load(filename):
    try:
        torch.ops.load_library(os.path.join(os.path.dirname(__file__), filename))
    except Exception as error:
        raise error

for target in names:
    for name in names.get(target, []):
        _load(f"{name}.so")
"""
XFORMERS = """
import importlib.machinery, os, torch

class InvalidLib(Exception):
    pass

def _register():
    spec = importlib.machinery.FileFinder(os.path.dirname(__file__)).find_spec("_C")
    try:
        torch.ops.load_library(spec.origin)
    except OSError as error:
        raise InvalidLib from error

try:
    _register()
except InvalidLib:
    pass
"""
PYNVVIDEOCODECS = """
import importlib.util, os, sys

def _get_path(suffix):
    for name in [f"libpart{suffix}.cpython-{sys.version_info[1]}.so", f"libpart{suffix}.so"]:
        path = os.path.join(os.path.dirname(__file__), name)
        if os.path.exists(path):
            return path

path = _get_path(os.environ["SUFFIX"])
spec = importlib.util.spec_from_file_location("_demo", path)
"""
MODULES = """
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
ExtensionFileLoader("demo._C", str(Path(__file__).parent / "_C.so"))
"""


def follow(folder: Path, init: str, **modules: str) -> ImportOpenings:
    members: dict[str, str | bytes] = {path: build_elf() for path in LIBRARIES}
    members["demo/__init__.py"] = init
    members.update({f"demo/{name}.py": code for name, code in modules.items()})
    with examine(build_wheel(folder, members=members)) as facts:
        return facts.get(OwnCode).find_import_openings()


def find(folder: Path, init: str, **modules: str) -> tuple[list[str], list[str]]:
    """What the import demands, and what it goes on without."""
    found = follow(folder, init, **modules)
    first, second = (
        sorted(path.rpartition("/")[2] for path in each) for each in (found.demanded, found.tried)
    )
    return first, second


OPENINGS = {
    "direct": (DIRECT.format(""), ["libdemo_cuda.so"], []),
    "tried": (DIRECT.format("try:\n    ") + "except OSError: pass\n", [], ["libdemo_cuda.so"]),
    "caught": (DIRECT.format("try:\n    ") + "except KeyError: pass\n", ["libdemo_cuda.so"], []),
    "later": (DIRECT.format("def later():\n    "), [], []),
    "function": (DIRECT.format("def now():\n    ") + "now()\n", ["libdemo_cuda.so"], []),
    "condition": (DIRECT.format("if os.path.getsize(__file__):\n    "), [], []),
    "there": (DIRECT.format("if os.path.exists(path):\n    "), ["libdemo_cuda.so"], []),
    "not set": (DIRECT.format("if not os.getenv('DEMO'):\n    "), ["libdemo_cuda.so"], []),
    "not there": (DIRECT.format("if 'DEMO' not in os.environ:\n    "), ["libdemo_cuda.so"], []),
    "default": (
        "from os import environ\n"
        + DIRECT.format("if environ.get('DOC', 'No') == 'Yes':\n    pass\nelse:\n    "),
        ["libdemo_cuda.so"],
        [],
    ),
    "helper": (TORCHVISIONS + "_load('_C')\n", ["_C.so"], []),
    "helper tried": (
        TORCHVISIONS + "try:\n    _load('_C')\nexcept (ImportError, OSError):\n    pass\n",
        [],
        ["_C.so"],
    ),
    "helper later": (TORCHVISIONS, [], []),
    "list": (FBGEMMS, ["_C.so", "libdemo_cuda.so"], []),
    "own exception": (XFORMERS, [], ["_C.so"]),
    "maker": (PYNVVIDEOCODECS, ["libpart_gpu.so"], []),
    "loader": (MODULES, ["_C.so"], []),
}


@pytest.mark.parametrize(("code", "demanded", "tried"), OPENINGS.values(), ids=OPENINGS)
def test_openings_are_followed(
    tmp_path: Path, code: str, demanded: list[str], tried: list[str]
) -> None:
    assert find(tmp_path, code) == (demanded, tried)


def test_those_of_modules_that_it_imports_count_and_no_others(tmp_path: Path) -> None:
    code = TORCHVISIONS + "_load('_C')\n"
    assert find(tmp_path / "a", "from . import ops\n", ops=code) == (["_C.so"], [])
    assert find(tmp_path / "b", "from demo.ops import _load\n", ops=code) == (["_C.so"], [])
    assert find(tmp_path / "c", "from . import ops\n", ops=TORCHVISIONS) == ([], [])


@pytest.mark.parametrize(
    "code",
    [DIRECT.format("") + "(", DIRECT.format("") + f"# {' ' * (1 << 20)}\n"],
    ids=["no Python", "too large"],
)
def test_what_code_names_that_is_not_followed_is_told(tmp_path: Path, code: str) -> None:
    found = follow(tmp_path, code)
    (path,) = found.unfollowed
    assert path.endswith("/demo/lib/libdemo_cuda.so")
    assert found == ImportOpenings(unfollowed=frozenset({path}))
