"""YAML as generated files have it: what PyYAML itself makes of the same document."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

yaml = pytest.importorskip("yaml")
from binary_checks.fleet.ci import yaml_text  # noqa: E402 - it needs yaml

TEXTS = st.one_of(
    st.text(alphabet=string.printable, max_size=20),
    st.text(alphabet="ab \n#:-'\"{}[],&*!|>%@`", max_size=12),
    st.sampled_from(
        ("yes", "null", "3.10", "1e3", "08", "", "~", "2026-11-22", "${{ x }}", "é\x85")
    ),
)
KEYS = st.one_of(st.text(alphabet=string.ascii_letters + "-_ .:", min_size=1, max_size=12), TEXTS)
LEAVES = st.one_of(TEXTS, st.booleans(), st.integers(), st.none(), st.floats(allow_nan=False))
LINES = st.dictionaries(KEYS, st.one_of(LEAVES, st.lists(LEAVES, max_size=3)), max_size=3)
VALUES = st.recursive(
    st.one_of(LEAVES, LINES.map(yaml_text.OneLine)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=4))
@example({"a": ["\n"]})
@example({"a": "x\n\n", "b": 1})
def test_a_document_is_what_pyyaml_makes_of_it(document: dict[str, object]) -> None:
    whole = yaml.dump(
        document,
        Dumper=yaml_text._Dumper,
        sort_keys=False,
        width=1 << 20,
        default_flow_style=False,
    )
    assert yaml_text.dump_yaml(document) == whole
