"""Rules must match their examples, not claim those of others, and never be slow."""

from __future__ import annotations

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.causes.cause_rules import (
    LONGEST_LINE,
    compile_pattern,
    load_causes,
    shipped_causes,
)

RULE = """
[[causes]]
name = "license-server"
kind = "infra"
patterns = ['^FLEXlm: .* cannot connect']
example = "FLEXlm: license server cannot connect"
counter_example = "demo says that FLEXlm: cannot connect"
"""


def changed(old: str, new: str, text: str = RULE) -> bytes:
    assert old in text
    return text.replace(old, new).encode()


def refusal(text: bytes) -> str:
    with pytest.raises(ProfileError) as refused:
        load_causes(text, "own.toml")
    return str(refused.value)


def test_the_shipped_rules_agree_with_each_other_and_say_what_to_do() -> None:
    rules = shipped_causes().shipped
    assert 15 <= len(rules) <= 30
    assert {rule.kind for rule in rules} == {"infra", "product", "tool", "unknown"}
    assert all(rule.advice for rule in rules)


def test_a_projects_rules_come_first_and_replace_those_of_the_same_name() -> None:
    causes = load_causes(changed("license-server", "disk-full"), "own.toml")
    assert [rule.name for rule in causes.own] == ["disk-full"]
    assert "disk-full" not in {rule.name for rule in causes.shipped}
    assert causes.rules[0] is causes.own[0]
    assert load_causes() == shipped_causes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            changed("FLEXlm: license", "RLM: license"),
            "own.toml: causes[0] (license-server): none of its patterns matches its example",
        ),
        (
            changed("demo says that FLEXlm:", "FLEXlm: server"),
            "own.toml: causes[0] (license-server): one of its patterns matches its counter_example",
        ),
        (
            (RULE + RULE).encode(),
            "own.toml: causes[1] (license-server): 'license-server' is the name of an earlier rule",
        ),
        (
            changed("^FLEXlm: .* cannot connect", "(FLEXlm"),
            "own.toml: causes[0] (license-server): pattern '(FLEXlm': not a regular expression: "
            "missing ), unterminated subpattern at position 0",
        ),
        (
            changed("^FLEXlm: .* cannot connect", "(?:FLEXlm: .*)+x"),
            "own.toml: causes[0] (license-server): pattern '(?:FLEXlm: .*)+x': a group is repeated",
        ),
        (
            changed('"infra"', '"weather"'),
            "own.toml:4: causes[0]: kind: 'weather' is not one of: "
            "infra, product, tool, unknown",
        ),
        (
            changed('"license-server"', '"License server"'),
            "own.toml: causes[0] (License server): its name may contain only lower-case "
            "letters, digits and single hyphens",
        ),
        (
            changed('kind = "infra"', 'kind = "infra"\nreads = []'),
            "own.toml: causes[0]: 'reads' is missing",
        ),
        (changed("counter_example", "#"), "own.toml: causes[0]: 'counter_example' is missing"),
        (
            changed("kind =", "kinds ="),
            "own.toml:4: causes[0]: unknown key 'kinds'; did you mean 'kind'?",
        ),
        (
            changed('kind = "infra"', 'kind = "infra"\nreads = ["news"]'),
            "own.toml:5: causes[0]: reads: 'news' is not one of: reason, log",
        ),
        (b"causes = 3", "own.toml: causes: 3 is not an array of tables"),
        (b"\xff", "own.toml: not TOML: 'utf-8' codec can't decode byte 0xff in position 0: "
         "invalid start byte"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_line_with_file_and_rule(text: bytes, said: str) -> None:
    assert refusal(text) == said


def test_a_rule_that_claims_the_example_of_another_is_refused_unless_it_reads_elsewhere() -> None:
    wide = changed("^FLEXlm: .* cannot connect", "license|certificate")
    assert refusal(wide.replace(b"demo says that FLEXlm", b"demo")) == (
        "own.toml: causes[0] (license-server): it also matches the example of "
        "causes.toml: causes[3] (certificate-untrusted)"
    )
    second = RULE.replace("license-server", "license-log")
    both = RULE + 'reads = ["reason"]' + second + 'reads = ["log"]'
    assert len(load_causes(both.encode(), "own.toml").own) == 2


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a|aa)*b", "a group is repeated"),
        ("(?:a+){5}", "a group is repeated"),
        ("a.*b.*c", "too many repetitions"),
        ("^a.*b.*c.*d", "too many repetitions"),
        ("^a|b.*c.*d", "too many repetitions"),
        ("^(a|b).*c.*|d", "too many repetitions"),
        ("a.*|b.*c", "too many repetitions"),
        ("a?a?a?a?a?a?a?a?a?b", "more than 8 optional parts"),
        (r"(a)\1", "is not supported"),
        ("(?=a)b", "is not supported"),
        ("(?P<a>a)b", "is not supported"),
        ("a*", "it matches every line"),
        ("a" * 501, "501 characters; at most 500 are allowed"),
        ("[b", "not a regular expression"),
    ],
)
def test_a_pattern_that_a_line_could_keep_busy_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(ProfileError, match=f"^own.toml: pattern .*{said}"):
        compile_pattern(pattern, "own.toml")


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("^a.*b.*c", "abc"),
        ("a{3,}b", "AAAB"),
        (r"(?:no|not) \[x\]|end$", "not [x]"),
        ("^a.*(?:b|c|(?:d|e)).*f", "a e f"),
        (r"[^]a]{2}\d", "bc1"),
        ("(?:one )?two", "two"),
    ],
)
def test_a_pattern_of_few_repetitions_is_taken(pattern: str, line: str) -> None:
    assert compile_pattern(pattern, "").search(line)


@pytest.mark.parametrize("pattern", ["^a.*a.*b", "a.*b", "a+b", "[a-z]{9,}b"])
def test_the_worst_line_takes_no_more_steps_than_its_length_squared(pattern: str) -> None:
    assert not compile_pattern(pattern, "").search("a" * LONGEST_LINE)  # else it would take years
