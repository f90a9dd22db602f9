"""What code says of files: which it names or starts, what it imports, whether it loads any."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.python_code.named_files import FileNames, NamedFiles, NameSearch, read_words

FILES = {
    "demo/libdemo.so.1": ("libdemo.so.1",),
    "demo/libother-1.2.dylib": ("libother-1.2.dylib", "libother.dylib"),
    "demo/_inject.abi3.so": ("_inject.abi3.so",),
    "demo/MPI.impi.cp312-win_amd64.pyd": ("MPI.impi.cp312-win_amd64.pyd",),
    "demo/bin/node": ("node",),
}
OPENING = "\nimport ctypes\nctypes.CDLL(find())\n"


def search(*codes: str) -> NamedFiles:
    names = NameSearch(FileNames(FILES))
    for code in codes:
        names.see("demo/__init__.py", dedent(code).encode())
    return names.conclude()


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ('"libdemo.so.1"', "demo/libdemo.so.1"),
        ("os.path.join(here, 'lib/libdemo.so.1')", "demo/libdemo.so.1"),
        ('load("_inject.abi3.so")', "demo/_inject.abi3.so"),
        ('[here / "bin" / "node", *arguments]', "demo/bin/node"),
    ],
)
def test_a_file_is_named_by_its_whole_name(code: str, path: str) -> None:
    assert search(code).named == {path}


@pytest.mark.parametrize(
    "code",
    [
        'os.path.exists(os.path.join(plugins, "libdemo.so.1"))',
        "exists('libdemo.so.1')",
        'isfile(join(plugins, "libdemo.so.1"))',
    ],
)
def test_a_question_whether_it_exists_names_no_file(code: str) -> None:
    """netCDF4 asks so for a plugin, and tells HDF5 where its plugins are."""
    assert search(code, OPENING).named == set()
    opening = f'if {code}: ctypes.CDLL(os.path.join(plugins, "libdemo.so.1"))'
    assert search(opening).named == {"demo/libdemo.so.1"}


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ('"libdemo"', "demo/libdemo.so.1"),
        ('f"libdemo{suffix}"', "demo/libdemo.so.1"),
        ('"libdemo.%s" % suffix', "demo/libdemo.so.1"),
        ('load("demo")', "demo/libdemo.so.1"),
        ('"other"', "demo/libother-1.2.dylib"),
        ('"_inject"', "demo/_inject.abi3.so"),
        ('"MPI.impi"', "demo/MPI.impi.cp312-win_amd64.pyd"),
    ],
)
def test_its_stem_names_it_where_the_package_opens_libraries(code: str, path: str) -> None:
    assert search(code, OPENING).named == {path}
    assert search(code).named == set()


@pytest.mark.parametrize("code", ["# libdemo.so.1 is here", 'f"libdem{x}"', '"MPI"', "demo = 1"])
def test_all_else_names_nothing(code: str) -> None:
    assert search(code, OPENING).named == set()


@pytest.mark.parametrize(
    ("code", "paths"),
    [
        ('f"libdemo{suffix}"', {"demo/libdemo.so.1"}),
        ('f"libde{suffix}.so"', set()),
        ('f"lib{suffix}.so.1"', set()),
        ('"libother-%s.dylib" % version', {"demo/libother-1.2.dylib"}),
        ('"libother-{}.dylib".format(version)', {"demo/libother-1.2.dylib"}),
        ('"%s.so" % name', set()),
    ],
)
def test_a_name_that_code_completes_means_the_files_that_fit(code: str, paths: set[str]) -> None:
    assert search(code + OPENING).completed == paths
    assert search(code).completed == set()
    assert search(code + OPENING).assembled == paths
    assert search(code).assembled == (paths if ".so" in code or ".dylib" in code else set())


@pytest.mark.parametrize(
    "setting",
    ['env["LD_LIBRARY_PATH"] = here', 'env = {"DYLD_LIBRARY_PATH": here}', "LD_LIBRARY_PATH=$here"],
)
def test_a_program_is_guided_whose_starter_sets_a_search_path(setting: str) -> None:
    assert search(f'{setting}\nrun("node")').guided == {"demo/bin/node"}
    assert search(setting, 'run("node")').guided == set()
    assert search('"LD_LIBRARY_PATH is not set"\nrun("node")').guided == set()
    endless = 'LD_LIBRARY_PATH",' * 200_000  # is searched once
    assert search(f"node = 'node'\n{endless}").guided == set()


@pytest.mark.parametrize(
    "code",
    [
        'spec = importlib.util.spec_from_file_location("demo._native", computed)',
        "loader = ExtensionFileLoader(\n    'demo._native', path)",
    ],
)
def test_the_name_of_a_module_that_is_imported_by_its_path_is_known(code: str) -> None:
    assert search(code).modules == {"demo._native"}
    assert search('spec_from_file_location(name, "demo._native")').modules == set()


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
