"""Templates of pages and mails are compiled once for all tests, which halves their time."""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

_COMPILED: dict[tuple[Any, ...], CodeType] = {}


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    environment = pytest.importorskip("jinja2").Environment
    compile_template = environment.compile

    def compile_once(self: Any, *words: Any) -> CodeType:
        if words not in _COMPILED:
            _COMPILED[words] = compile_template(self, *words)
        return _COMPILED[words]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "compile", compile_once)
        yield
