"""Which calls and imports may fail, as the code goes on, and which calls no import makes."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.python_code.guarded_code import Opening, TriedImports, find_openings

LATE = """
    def find():
        try:
            return CDLL(path)
        except OSError:
            return None
"""


def find(code: str, *called: str) -> list[Opening]:
    return find_openings(dedent(code).encode(), called)


def tried(code: str) -> set[str]:
    return {call.code for call in find(code) if call.tried}


def late(code: str) -> set[str]:
    return {call.code for call in find(code) if call.late}


@pytest.mark.parametrize(
    "handler",
    ["except OSError: pass", "except: lib = None", "except (ValueError, Exception) as e: log(e)"],
)
def test_what_code_goes_on_after_is_tried(handler: str) -> None:
    assert tried(f"try: CDLL(path)\n{handler}") == {"CDLL(path)"}


@pytest.mark.parametrize(
    "handler",
    [
        "except ImportError: pass",  # ctypes raises OSError
        "except OSError: raise",
        "except OSError as e: raise ImportError('install it') from e",
        "except OSError: sys.exit(1)",
        "except OSError: CDLL('libdemo.so.1')",
        "except OSError: cdll.LoadLibrary(other)",
        "finally: clean_up",
    ],
)
def test_what_fails_all_the_same_or_asks_for_another_is_not(handler: str) -> None:
    assert tried(f"try: CDLL(path)\n{handler}") == set()


def test_what_follows_a_try_or_is_only_defined_in_it_is_not_guarded_by_it() -> None:
    code = "try: a = 1\nexcept OSError: pass\nelse: CDLL(path)\nCDLL(other)"
    assert tried(code) == set()
    assert tried("try:\n  def load(): CDLL(path)\nexcept OSError: pass") == set()


def test_a_call_in_a_function_that_no_import_calls_comes_late() -> None:
    assert late(LATE) == {"CDLL(path)"}
    assert late(LATE + "\n    find()") == set()
    assert late("try: CDLL(path)\nexcept OSError: pass") == set()


@pytest.mark.parametrize(
    ("code", "guarded"),
    [
        ("with contextlib.suppress(OSError): CDLL(path)", True),
        ("try: CDLL(path)\nexcept InvalidLibrary: pass", True),
        ("try: CDLL(path)\nexcept KeyError: pass", False),
        ("try: CDLL(path)\nexcept queue.Empty: pass", False),
        ("try: CDLL(path)\nexcept errors[0]: pass", False),
    ],
)
def test_failures_are_suppressed_or_stand_for_others(code: str, guarded: bool) -> None:
    assert tried(code) == ({"CDLL(path)"} if guarded else set())


FIND = "def find(): CDLL(path)\n"


def test_what_a_function_opens_is_tried_where_all_its_callers_go_on() -> None:
    trying = "try: find()\nexcept OSError: pass\n"
    assert "CDLL(path)" in tried(FIND + trying)
    assert "CDLL(path)" not in tried(FIND + trying + "find()")
    assert "CDLL(path)" in tried(FIND + "def load(): find()\ntry: load()\nexcept OSError: pass")


def test_a_function_that_another_module_calls_is_called_at_import() -> None:
    assert late(FIND) == {"CDLL(path)"}
    assert [call.late for call in find(FIND, "find")] == [False]


def imported(*codes: str) -> frozenset[str]:
    """The extension modules that are imported only where the code goes on without them."""
    search = TriedImports(frozenset({"demo._fast", "demo.np.tbbpool"}))
    for code in codes:
        search.see("demo/__init__.py", dedent(code).encode())
    return search.conclude()


@pytest.mark.parametrize(
    "statement",
    [
        "from demo import _fast",
        "from demo._fast import *",
        "import demo._fast as fast",
        "fast = importlib.import_module('demo._fast')",
    ],
)
@pytest.mark.parametrize("caught", ["ImportError", "(OSError, ImportError)", "Exception"])
def test_an_import_is_tried_whose_failure_is_caught(statement: str, caught: str) -> None:
    assert imported(f"try:\n    {statement}\nexcept {caught}:\n    fast = None") == {"demo._fast"}
    assert imported(f"try:\n    {statement}\nexcept:\n    pass") == {"demo._fast"}


@pytest.mark.parametrize(
    "code",
    [
        "from demo import _fast",
        "def f():\n    import demo._fast",
        "try:\n    from demo import _fast\nexcept ImportError as e:\n    raise RuntimeError from e",
        "try:\n    from demo import _fast\nexcept ModuleNotFoundError:\n    pass",
        "try:\n    pass\nexcept ImportError:\n    from demo import _fast",
        "try:\n    pass\nexcept ImportError:\n    pass\nelse:\n    from demo import _fast",
        "from demo import _fast ??",
        "",
    ],
)
def test_all_others_are_demanded(code: str) -> None:
    assert imported(code) == set()


def test_one_import_that_is_not_tried_is_enough() -> None:
    trying = "try:\n    from . import _fast\nexcept ImportError:\n    pass"
    assert imported(trying, "from . import _fast") == set()
    assert imported(trying, "from . import tbbpool") == {"demo._fast"}


def test_a_module_of_the_same_name_elsewhere_is_another() -> None:
    """cupy tries cupy_backends.cuda.libs.cutensor, and has a cupyx.cutensor too."""
    trying = "try:\n    from demo.np import tbbpool\nexcept ImportError:\n    pass"
    assert imported(trying, "from other import tbbpool") == {"demo.np.tbbpool"}
    assert imported(trying, "from .np import tbbpool") == set()
    assert imported(trying, "importlib.import_module('.np.tbbpool', __name__)") == set()
