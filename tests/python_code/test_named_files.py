"""Which object files a package's own code spells out, opens, or starts with a search path."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.python_code.mentions import SourceFile
from binary_checks.python_code.named_files import NamedFiles, NameSearch

FILES = {
    "demo/libdemo.so.1": ("libdemo.so.1",),
    "demo/libother-1.2.dylib": ("libother-1.2.dylib", "libother.dylib"),
    "demo/_inject.abi3.so": ("_inject.abi3.so",),
    "demo/MPI.impi.cp312-win_amd64.pyd": ("MPI.impi.cp312-win_amd64.pyd",),
    "demo/bin/node": ("node",),
}
OPENING = "\nimport ctypes\nctypes.CDLL(find())\n"
LOCATING = "from pathlib import Path\nhere = Path(__file__).parent\n"


def search(*codes: str, path: str = "demo/__init__.py") -> NamedFiles:
    names, opening = NameSearch(FILES), []
    for code in codes:
        content = dedent(code).encode()
        if names.see(content):
            opening.append(SourceFile(path, len(content), lambda content=content: content))
    return names.conclude(opening, [path, *FILES])


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


def test_what_is_opened_by_its_path_is_opened() -> None:
    beginning = "import ctypes, os\nhere = os.path.dirname(__file__)\n"
    assert search(f"{beginning}ctypes.CDLL(os.path.join(here, 'libdemo.so.1'))").opened == {
        "demo/libdemo.so.1"
    }
    found = search(
        f"{beginning}from importlib.util import spec_from_file_location\n"
        "spec_from_file_location('x', os.path.join(here, '_inject.abi3.so'))"
    )
    assert found.opened == {"demo/_inject.abi3.so"}


def test_a_name_that_is_computed_is_a_pattern() -> None:
    code = """
        import ctypes, os, sys
        ctypes.CDLL(os.path.join(os.path.dirname(__file__), f"libdemo_{sys.argv[1]}.so"))
        ctypes.CDLL(sys.argv[2])
    """
    assert search(code).patterns == ("demo/libdemo_*.so",)


@pytest.mark.parametrize(
    "setting",
    ['env["LD_LIBRARY_PATH"] = here', 'env = {"DYLD_LIBRARY_PATH": here}', "LD_LIBRARY_PATH=$here"],
)
def test_a_program_is_guided_whose_starter_sets_a_search_path(setting: str) -> None:
    assert search(f'{setting}\nrun("node")').guided == {"demo/bin/node"}
    assert search(setting, 'run("node")').guided == set()
    assert search('"LD_LIBRARY_PATH is not set"\nrun("node")').guided == set()


def test_code_that_opens_the_system_s_libraries_alone_is_not_followed() -> None:
    search = NameSearch(FILES)
    assert not search.see(b"import ctypes\nctypes.windll.LoadLibrary('kernel32.dll')")
    assert search.see(LOCATING.encode() + b"import ctypes\nctypes.CDLL(here / name)")


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
