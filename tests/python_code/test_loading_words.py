"""What code imports, and whether it says a word of loading libraries."""

from __future__ import annotations

import pytest

from binary_checks.python_code.named_files import read_words


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import torch", {"torch"}),
        ("    import torch._C as core, numpy.linalg\n", {"torch._C", "numpy.linalg"}),
        ("from torch.utils import data", {"torch.utils", "torch.utils.data"}),
        ("from nvidia import cublas as c, cufft", {"nvidia", "nvidia.cublas", "nvidia.cufft"}),
        ("from a import (\n    b,\n    c,\n)\nimport d", {"a", "a.b", "a.c", "d"}),
        ("from a import *", {"a"}),
        ("importlib.import_module('torch')", {"torch"}),
        ('__import__("torch.ops")', {"torch.ops"}),
        ("from . import torch", set()),
        ("importable = torch", set()),
        ("# we do not import torch", set()),
    ],
)
def test_modules_are_imported_by_these_words(code: str, modules: set[str]) -> None:
    assert read_words([("demo/__init__.py", code.encode())]).imports == modules


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("import ctypes", "ctypes"),
        ("from cffi import FFI", "cffi"),
        ("lib = dlopen(path)", "dlopen"),
        ("CDLL(path)", "CDLL"),
        ("torch.ops.load_library(path)", "load_library"),
        ("os.add_dll_directory(here)", "add_dll_directory"),
        ('env["LD_LIBRARY_PATH"] = here', "LD_LIBRARY_PATH"),
        ('os.environ["PATH"] = here', 'environ["PATH"]'),
        ('os.environ["PYTHONPATH"] = here', ""),
        ("my_ctypes.load()", ""),
        ("CDLLs = 3", ""),
    ],
)
def test_whole_words_are_of_loading(code: str, word: str) -> None:
    found = read_words([("demo/__init__.py", code.encode())]).loading
    assert found == (f"{word} in demo/__init__.py" if word else "")


def test_the_outermost_source_is_named_and_all_are_read() -> None:
    words = read_words(
        [("demo/a/b.py", b"import ctypes"), ("demo/z.py", b"CDLL()"), ("demo/y.py", b"import x")]
    )
    assert words.loading == "CDLL in demo/z.py"
    assert words.imports == {"ctypes", "x"}


def test_symbols_are_lent_to_the_process_by_one_word_alone() -> None:
    says = b"import ctypes\nctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)"
    assert read_words([("a.py", says)]).everywhere
    assert not read_words([("a.py", b"import ctypes"), ("b.py", b"RTLD_GLOBALS")]).everywhere
