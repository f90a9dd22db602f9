"""What of a URL, and of a server's names, may be used as it is."""

from __future__ import annotations

import pytest

from binary_checks.web.addresses import is_plain


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "C:x.whl", "x.whl:more", "a\0"])
def test_a_name_that_leads_elsewhere_on_some_system_is_no_plain_one(name: str) -> None:
    assert not is_plain(name)
    assert is_plain("demo-1.0+cu126-py3-none-any.whl")
