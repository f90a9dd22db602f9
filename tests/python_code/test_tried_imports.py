"""Which extension modules a package imports only where it goes on without them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from binary_checks.python_code.guarded_code import TriedImports


def tried(*codes: str) -> frozenset[str]:
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
    assert tried(f"try:\n    {statement}\nexcept {caught}:\n    fast = None") == {"demo._fast"}
    assert tried(f"try:\n    {statement}\nexcept:\n    pass") == {"demo._fast"}


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
    assert tried(code) == set()


def test_one_import_that_is_not_tried_is_enough() -> None:
    trying = "try:\n    from . import _fast\nexcept ImportError:\n    pass"
    assert tried(trying, "from . import _fast") == set()
    assert tried(trying, "from . import tbbpool") == {"demo._fast"}


def test_a_module_of_the_same_name_elsewhere_is_another() -> None:
    """cupy tries cupy_backends.cuda.libs.cutensor, and has a cupyx.cutensor too."""
    trying = "try:\n    from demo.np import tbbpool\nexcept ImportError:\n    pass"
    assert tried(trying, "from other import tbbpool") == {"demo.np.tbbpool"}
    assert tried(trying, "from .np import tbbpool") == set()
    assert tried(trying, "importlib.import_module('.np.tbbpool', __name__)") == set()
