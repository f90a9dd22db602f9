"""What code has loaded by the time that it loads a file, as far as that is certain."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.python_code.execution import Load
from binary_checks.python_code.import_order import ImportOrder
from binary_checks.python_code.own_modules import OwnModules

NATIVE, BASE, LIBX, LIBY = (
    "demo/_native.so",
    "demo/_base.so",
    "demo/lib/libx.so",
    "demo/lib/liby.so",
)
PUBLIC = "demo/fast.so"
MODULES = {"demo._native": NATIVE, "demo._base": BASE, "demo.fast": PUBLIC}
TORCH = Load(module="torch")


def before(path: str, system: str = "linux", **files: str) -> list[str]:
    """What is loaded before a file, where files of demo have that code; ``+`` is RTLD_GLOBAL."""
    encoded = {f"demo/{name}.py": dedent(text).encode() for name, text in files.items()}
    paths = (*MODULES.values(), LIBX, LIBY, *encoded)
    order = ImportOrder(OwnModules(encoded, MODULES, paths, system))
    names = {extension: name for name, extension in MODULES.items()}
    loads = order.before(path, names.get(path, ""))
    return [f"{load.module or load.path}{'+' * load.everywhere}" for load in loads]


def init(code: str, path: str = NATIVE, system: str = "linux", **files: str) -> list[str]:
    return before(path, system, __init__=code, **files)


def test_what_the_package_imports_comes_before_its_extension_modules() -> None:
    assert init("import os\nimport torch\nfrom . import _native") == ["os", "torch"]
    assert init("import torch") == ["torch"]
    assert init("from . import _native\nimport torch") == []
    assert init("") == []


def test_a_librarys_own_path_is_computed_and_opened_in_turn() -> None:
    code = """
        import ctypes
        from pathlib import Path

        _HERE = Path(__file__).parent

        def _open(name, mode=ctypes.DEFAULT_MODE):
            return ctypes.CDLL(str(_HERE / "lib" / name), mode)

        ctypes.CDLL(str(_HERE / "lib" / "libx.so"), mode=ctypes.RTLD_GLOBAL)
        _open("liby.so")
        from ._native import *
    """
    assert init(code) == ["ctypes", "pathlib", f"{LIBX}+", LIBY]


def test_other_modules_of_the_package_are_followed_where_they_are_imported() -> None:
    loader = "import torch\ndef load():\n    import numpy\n"
    assert init("from .loader import load\nload()", loader=loader) == ["torch", "numpy"]
    assert init("from . import loader\nloader.load()", loader=loader) == ["torch", "numpy"]
    assert init("from . import loader", loader=loader) == ["torch"]
    assert init("import demo.loader", loader=loader) == ["torch"]
    assert init(
        "import importlib\nimportlib.import_module('.loader', __name__)", loader=loader
    ) == [
        "importlib",
        "torch",
    ]


def test_an_extension_module_that_is_imported_first_is_a_load_too() -> None:
    assert init("from . import _base") == [BASE]
    flags = """
        import os, sys
        sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
        from . import _base
        sys.setdlopenflags(2)
    """
    assert init(flags) == ["os", "sys", f"{BASE}+"]


@pytest.mark.parametrize(
    ("condition", "loads"),
    [
        ("sys.platform == 'linux'", True),
        ("sys.platform.startswith('linux')", True),
        ("sys.platform in ('linux', 'linux2')", True),
        ("os.name != 'nt'", True),
        ("platform.system() == 'Linux'", True),
        ("platform.system().lower() == 'linux'", True),
        ("not sys.platform == 'win32'", True),
        ("sys.platform == 'linux' and os.environ.get('X')", False),
        ("sys.platform == 'linux' or os.environ.get('X')", True),
        ("sys.platform == 'win32'", False),
        ("os.environ.get('X')", False),
        ("typing.TYPE_CHECKING", False),
        ("TYPE_CHECKING", False),
        ("__name__ == '__main__'", False),
        ("True", True),
    ],
)
def test_what_is_loaded_under_a_condition_counts_where_that_holds(
    condition: str, loads: bool
) -> None:
    assert init(f"if {condition}:\n    import torch") == ["torch"] * loads


def test_the_other_branch_counts_where_a_condition_does_not_hold() -> None:
    assert init("if sys.platform == 'win32':\n    import a\nelse:\n    import b") == ["b"]
    assert init(
        "if sys.platform == 'win32':\n    import a\nelse:\n    import b", system="windows"
    ) == ["a"]
    assert init("if sys.platform == 'darwin':\n    import a", system="macos") == ["a"]


@pytest.mark.parametrize("asks", ["_PATH.exists()", "os.path.isfile(_PATH)"])
def test_a_file_of_the_package_exists(asks: str) -> None:
    code = """
        import os, torch
        from pathlib import Path
        _PATH = Path(__file__).parent / "lib" / "{file}"
        def load():
            if not {asks}:
                return
            torch.ops.load_library(_PATH)
        load()
    """
    loaded = init(code.format(file="libx.so", asks=asks))
    assert loaded == ["os", "torch", "pathlib", LIBX]
    assert LIBX not in init(code.format(file="libgone.so", asks=asks))
    unknown = code.format(file="libx.so", asks="_asked.exists()")
    assert LIBX not in init(unknown)


def test_what_both_branches_load_is_loaded() -> None:
    code = "if unknown():\n    import a, torch\nelse:\n    import torch, b"
    assert init(code) == ["torch"]
    assert init(f"{code}\nfrom . import _native") == ["torch"]


def test_a_branch_that_ends_the_import_does_not_count() -> None:
    assert init("if unknown():\n    raise ImportError\nelse:\n    import torch") == ["torch"]
    early = "def load():\n    if unknown():\n        return\n    import torch\nload()"
    assert init(early) == []
    late = "def load():\n    import torch\n    if unknown():\n        return\n    import a\nload()"
    assert init(late) == ["torch"]
    failing = "def load():\n    try:\n        import torch\n    except X:\n        return\nload()"
    assert init(failing) == ["torch"]


def test_what_is_tried_is_taken_to_succeed() -> None:
    code = "try:\n    import torch\nexcept ImportError as error:\n    raise X from error"
    assert init(code) == ["torch"]
    assert init("try:\n    from . import _native\nexcept ImportError:\n    import torch") == []


def test_loops_and_contexts_are_entered() -> None:
    code = """
        import ctypes, os
        _LIB = os.path.join(os.path.dirname(__file__), "lib")
        with quiet():
            for _name in ("liby.so", "libx.so"):
                ctypes.CDLL(os.path.join(_LIB, _name))
    """
    assert init(code) == ["ctypes", "os", LIBX, LIBY]


def test_what_is_only_defined_loads_nothing() -> None:
    assert init("def load():\n    import torch\nlater = lambda: __import__('torch')") == []
    assert init("class Loader:\n    import torch") == ["torch"]


def test_a_private_module_comes_after_what_all_its_importers_load() -> None:
    ops, more = (
        "import torch\nfrom . import _native",
        "import a\nimport torch\nfrom . import _native",
    )
    assert init("", ops=ops) == ["torch"]
    assert init("", ops=ops, more=more) == ["torch"]
    assert init("", ops=ops, more="from . import _native") == []


def test_a_public_module_may_be_imported_by_anybody_at_once() -> None:
    ops = "import torch\nfrom . import fast"
    assert init("", PUBLIC, ops=ops) == []
    assert init("from . import ops", PUBLIC, ops=ops) == ["torch"]


def test_a_library_comes_after_what_the_code_that_opens_it_loads() -> None:
    opens = """
        import torch
        from pathlib import Path
        torch.ops.load_library(str(Path(__file__).parent / "lib" / "libx.so"))
    """
    assert init("", LIBX, ops=opens) == ["torch", "pathlib"]
    assert init("import numpy", LIBX) == ["numpy"]  # whoever opens it: the package is imported


def test_packages_that_import_each_other_come_to_an_end() -> None:
    files = {"a": "from . import b\nimport x", "b": "from . import a\nimport y"}
    assert init("from . import a", **files) == ["y", "x"]
    assert init("def f():\n    f()\n    import torch\nf()") == ["torch"]


def test_code_that_is_no_python_loads_nothing_and_stops_nothing() -> None:
    assert init("import torch\nfrom . import broken", broken="def (") == ["torch"]
    assert init("from .. import x\nfrom ... import y\nimport torch") == ["torch"]


def test_the_module_itself_tells_what_importing_it_loads() -> None:
    code = b"import torch\nfrom . import _base\nfrom . import _native"
    order = ImportOrder(OwnModules({"demo/__init__.py": code}, MODULES, MODULES.values(), "linux"))
    assert order.import_module("demo") == (TORCH, Load(path=BASE), Load(path=NATIVE))
    assert order.import_module("demo._native") == (TORCH, Load(path=BASE), Load(path=NATIVE))


def test_code_that_would_take_for_ever_is_given_up() -> None:
    calls = "    if x():\n        f{next}()\n    else:\n        f{next}()"
    doubling = "\n".join(f"def f{i}():\n{calls.format(next=i + 1)}" for i in range(38))
    assert init(f"import torch\n{doubling}\ndef f38():\n    import a\nf0()") == ["torch"]


def test_modules_that_all_import_each_other_are_given_up() -> None:
    others = "\n".join(f"from . import m{number}" for number in range(100))
    files = {f"m{number}": f"from . import _native\n{others}" for number in range(150)}
    assert init("", **files) == []
