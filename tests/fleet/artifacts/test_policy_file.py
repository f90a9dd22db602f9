"""A policy that nothing or everything can pass is refused, with a message of one line."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from binary_checks.errors import ProfileError, RecordError
from binary_checks.fleet.artifacts import (
    Artifact,
    Gate,
    GatePolicy,
    GateRule,
    apply_rules,
    read_gate,
    read_policy,
    write_gate,
)
from tests.fleet.artifacts.made_verdicts import make_key

TODAY = date(2026, 11, 20)
WHOLE = """
[[keys]]
name = "ci"
file = "ci.pub"

[[keys]]
name = "release"
public = "{release}"

[channels.release]
from = ["test"]
families = ["metadata", "linkage", "runtime"]
places = ["image:oldest", "image:newest"]
accept = ["passed", "known"]
profile = "torch"
max_age = 14
signed = true
threshold = 2
promoters = ["release"]

[[channels.release.cells]]
when = "system=windows"
families = ["metadata", "linkage"]
places = []
reason = "there is no Windows host"

[[channels.release.cells]]
when = "variant=cu*"
gpu = true

[[channels.release.waivers]]
despite = "absolute-search-path"
package = "demo-1.*"
reason = "issue 7"
owner = "ann"
expires = 2026-12-01
"""


def read(folder: Path, text: str) -> GatePolicy:
    (folder / "policy.toml").write_text(text, encoding="utf-8")
    return read_policy(folder / "policy.toml", TODAY)


def whole(folder: Path) -> Gate:
    make_key(folder)
    _, release = make_key(folder, "release")
    return read(folder, WHOLE.replace("{release}", release)).gate_of("release")


def artifact(**said: str) -> Artifact:
    usual = {"sha256": "ab" * 32, "file_name": "demo-1.0.whl", "kind": "wheel", "project": "demo"}
    return Artifact(size=1, **{**usual, **said})


def test_a_policy_says_what_each_channel_asks(tmp_path: Path) -> None:
    gate = whole(tmp_path)
    assert (gate.sources, gate.max_age, gate.threshold) == (("test",), 14.0, 2)
    assert [key.name for key in gate.keys] == ["ci", "release"]
    assert [key.name for key in gate.promoters] == ["release"]
    assert gate.waivers[0].expires == "2026-12-01"


def test_the_last_rule_that_meets_a_file_holds(tmp_path: Path) -> None:
    gate = whole(tmp_path)
    windows = apply_rules(gate, artifact(system="windows"))
    assert (windows.families, windows.places) == (("metadata", "linkage"), ())
    cuda = apply_rules(gate, artifact(system="linux", variant="cu130"))
    assert cuda.families == ("metadata", "linkage", "runtime", "gpu")
    assert apply_rules(gate, artifact(system="linux")) == gate
    assert apply_rules(gate, artifact(system="any")) == gate


def test_a_gate_is_recorded_with_its_keys_and_read_as_it_was(tmp_path: Path) -> None:
    gate = whole(tmp_path)
    assert read_gate(write_gate(gate), "it") == gate
    with pytest.raises(RecordError, match="unknown field"):
        read_gate(write_gate(gate).replace(b'"max_age"', b'"min_age"'), "it")
    for odd in (
        replace(gate, max_age=3650.1),
        replace(gate, rules=(GateRule(when="os=x"),)),
        replace(gate, rules=(GateRule(when="system=x", max_age=-1.0),)),
        replace(gate, waivers=(replace(gate.waivers[0], expires="soon"),)),
        replace(gate, keys=(replace(gate.keys[0], public="x"),)),
    ):
        with pytest.raises(RecordError, match=r"^it: "):
            read_gate(write_gate(odd), "it")
    with pytest.raises(RecordError, match="not a document binary-checks/gate/2"):
        read_gate(b"{}", "it")
    assert gate.digest != whole(tmp_path).digest  # with other keys in files of the same names


def test_the_channel_of_a_gate_that_there_is_not_is_named(tmp_path: Path) -> None:
    policy = read(tmp_path, '[channels.release]\nfamilies = ["linkage"]\n')
    with pytest.raises(
        ProfileError, match=r"policy\.toml: unknown channel 'relaese'; did you mean"
    ):
        policy.gate_of("relaese")


def test_a_waiver_that_expired_is_a_warning(tmp_path: Path) -> None:
    text = '[channels.release]\nfamilies = ["linkage"]\n[[channels.release.waivers]]\n'
    text += 'despite = "x"\nreason = "r"\nowner = "o"\nexpires = 2026-11-19\n'
    (line,) = read(tmp_path, text).warnings
    assert line.endswith("policy.toml: channels.release: waivers: x: expired on 2026-11-19")


GATED = '[channels.release]\nfamilies = ["linkage"]\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it has no [channels.NAME], so no channel has a gate"),
        ("[chanels.release]\n", "unknown key 'chanels'; did you mean 'channels'?"),
        ("[channels.release]\n", "policy.toml:1: channels.release: 'families' is missing"),
        ("channels.release = 1\n", "channels.release: 1 is not a table"),
        ('[channels.release]\nfamilies = ["linkag"]\n', "families: unknown family 'linkag'; did"),
        ("[channels.release]\nfamilies = []\n", "families: name at least one; otherwise"),
        ("[channels.release]\nfamilies = 1\n", "families: 1 is not an array"),
        (GATED + "max_age = 0\n", "max_age: 0 days: expected more than 0"),
        (GATED + "max_age = 3651\n", "max_age: 3651 days: expected more than 0 and at most 3650"),
        (GATED + 'accept = ["known"]\n', "add 'passed'; otherwise packages without problems"),
        (GATED + 'accept = ["failed"]\n', "accept: 'failed' is not one of: passed"),
        (GATED + "signed = true\n", "there are no [[keys]]: no file could pass"),
        (GATED + "threshold = 1\n", "there are no [[keys]]: no file could pass"),
        (GATED + "signed = false\nthreshold = 1\n", "signed = false contradicts the keys"),
        (GATED + 'keys = ["ann"]\n', "keys: unknown key 'ann'"),
        (GATED + 'from = ["release"]\n', "from: name another channel; otherwise nothing"),
        (GATED + "from = []\n", "from: name another channel; otherwise nothing"),
        (GATED + 'places = ["image:oldest"]\n', "none of the families runs the package there"),
        (GATED + 'gaps = ["venv"]\n', "gaps: 'venv' is not one of the places"),
        (GATED + 'places = ["moon"]\n', "channels.release: moon: unknown place"),
        (GATED + 'gate = "x"\n', "unknown key 'gate'"),
        (GATED + "[[channels.release.cells]]\n", "channels.release.cells[0]: 'when' is missing"),
        (GATED + '[[channels.release.cells]]\nwhen = "os=x"\n', "when: unknown axis 'os'"),
        (GATED + '[[channels.release.cells]]\nwhen = "id=x"\n', "when: unknown axis 'id'"),
        (
            GATED + '[[channels.release.cells]]\nwhen = "system=x"\nfamilies = ["metadata"]\n',
            "'reason' is missing: state why these files need no linkage",
        ),
        (
            GATED + '[[channels.release.cells]]\nwhen = "system=x"\ngpu = false\n',
            "'reason' is missing: state why these files need no gpu",
        ),
        (GATED + "[channels.release.cells]\n", "with two brackets"),
        (GATED + '[[channels.release.waivers]]\ndespite = "x"\n', "'reason' is missing"),
        (
            GATED + '[[channels.release.waivers]]\ndespite="x"\nreason="r"\nowner="o"\n',
            "policy.toml:3: channels.release.waivers[0]: 'expires' is missing",
        ),
        ('[[keys]]\nname = "a"\n' + GATED, "give either file or public"),
        ('[[keys]]\nname = "a"\nfile = "none"\n' + GATED, "file none: No such file"),
        ('[[keys]]\nname = "a"\npublic = "AAAA"\n' + GATED, "not an ed25519 public key"),
        ("families = [", "not TOML"),
    ],
)
def test_what_cannot_be_followed_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ProfileError) as error:
        read(tmp_path, text)
    assert fault in str(error.value)
    assert str(error.value).startswith(f"{tmp_path}/policy.toml:")


def test_a_key_counts_once(tmp_path: Path) -> None:
    _, raw = make_key(tmp_path)
    twice = f'[[keys]]\nname = "a"\npublic = "{raw}"\n[[keys]]\nname = "b"\nfile = "ci.pub"\n'
    with pytest.raises(ProfileError, match=r"policy\.toml:4: keys\[1\]: b: this name or this key"):
        read(tmp_path, twice + GATED)
    with pytest.raises(ProfileError, match="threshold: 2, but it has 1 of the keys"):
        read(tmp_path, f'[[keys]]\nname = "a"\npublic = "{raw}"\n{GATED}threshold = 2\n')


def test_where_keys_are_listed_verdicts_must_be_signed_unless_it_says_otherwise(
    tmp_path: Path,
) -> None:
    _, raw = make_key(tmp_path)
    listed = f'[[keys]]\nname = "a"\npublic = "{raw}"\n{GATED}'
    assert read(tmp_path, listed).gate_of("release").threshold == 1
    assert read(tmp_path, f"{listed}signed = false\n").gate_of("release").threshold == 0
    assert read(tmp_path, GATED).gate_of("release").threshold == 0


def test_a_family_of_the_projects_own_is_named_as_such(tmp_path: Path) -> None:
    text = 'own_families = ["mine"]\n[channels.release]\nfamilies = ["mine"]\n'
    assert read(tmp_path, text).gate_of("release").families == ("mine",)


def test_the_policy_in_the_documentation_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "promotion.md").read_text(encoding="utf-8")
    shown = page.partition("## policy.toml")[2].partition("| key of a channel")[0]
    make_key(tmp_path)
    gate = read(tmp_path, textwrap.dedent(shown)).gate_of("release")
    assert [key.name for key in gate.keys] == ["ci"]
    assert len(gate.rules) == 2
    assert len(gate.waivers) == 1


def test_a_policy_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("#" * (1 << 20) + "\n")
    with pytest.raises(ProfileError, match="more than 1,048,576 bytes"):
        read_policy(path, TODAY)
