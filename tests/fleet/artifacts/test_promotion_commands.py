"""`artifact attest` and `artifact promote`: each file separately, and nothing half done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.errors import StoreError
from binary_checks.fleet.artifacts import find_with_gpu, join_channel, list_members, list_verdicts
from binary_checks.fleet.night import Cell
from binary_checks.fleet.store import Store, artifact_name, promotion_prefix, verdict_prefix
from binary_checks.model import RunResult
from fixtures.runs import PROFILE, package_result
from tests.fleet.artifacts.made_artifacts import make_artifact
from tests.fleet.artifacts.made_verdicts import ENDED, make_key, make_run, write_run
from tests.fleet.artifacts.release_desk import BAD, GATE, GOOD, Desk


def test_the_broken_one_is_refused_and_the_others_are_let_through(desk: Desk) -> None:
    good, bad, untested = desk.push("1.0", *GOOD), desk.push("1.1", *BAD), desk.push("1.2")
    status, out, _ = desk.promote("demo")
    assert status == 1
    assert out.splitlines() == [
        f"{good.file_name}: promoted",
        f"{bad.file_name}: refused: failed ({ENDED}): linkage-check: demo/a.so: needs "
        "libfoo.so.1, which is nowhere; fix the package, or waive the check",
        f"{untested.file_name}: refused: linkage: no verdict; judge it there and run "
        "`artifact attest` on the result",
        "1 promoted, 2 refused",
    ]
    assert desk.released() == [good.file_name]


def test_a_dry_run_writes_nothing_and_a_second_run_has_nothing_to_do(desk: Desk) -> None:
    good = desk.push("1.0", *GOOD)
    before = desk.names()
    status, out, _ = desk.promote("--dry-run")
    assert (status, out.splitlines()[-1]) == (0, "1 would be promoted")
    assert desk.names() == before
    assert desk.promote()[0] == 0
    before = desk.names()
    assert desk.promote()[:2] == (0, f"{good.file_name}: there already\n1 there already\n")
    attested = f"{good.file_name}: passed, {ENDED}: there already\n"
    assert desk.do("attest", desk.result(good, *GOOD))[:2] == (0, attested)
    assert desk.names() == before


def test_all_or_nothing_promotes_nothing_where_one_is_refused(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    desk.push("1.1", *BAD)
    status, out, _ = desk.promote("--all-or-nothing")
    assert status == 1
    assert "held back: --all-or-nothing, and 1 refused" in out
    assert desk.released() == []
    assert not [name for name in desk.names("packages/") if "/promotions/" in name]


def test_a_document_says_the_same_to_programs(desk: Desk) -> None:
    good, bad = desk.push("1.0", *GOOD), desk.push("1.1", *BAD)
    status, out, _ = desk.promote("--json")
    document = json.loads(out)
    assert status == 1
    assert document["schema"] == "binary-checks/promotions/2"
    states = {each["sha256"]: each["state"] for each in document["files"]}
    assert states == {good.sha256: "promoted", bad.sha256: "refused"}


def test_files_are_meant_by_project_name_glob_axis_digest_and_path(desk: Desk) -> None:
    linux = desk.push("1.0", *GOOD, system="linux", python="3.12")
    windows = desk.push("1.1", *GOOD, system="windows", python="3.12")
    for asked in (
        (linux.file_name,),
        ("demo-1.0-*",),
        ("Demo", "--where", "system=linux"),
        ("--where", "system=linux python=3.*"),
        ("--where", f"sha256={linux.sha256[:16]}"),
        (desk.folder / linux.file_name,),
    ):
        _, out, _ = desk.promote("--dry-run", *asked)
        assert out.splitlines()[0] == f"{linux.file_name}: would be promoted", asked
        assert windows.file_name not in out


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (("{}",), "the channel test has no file with its SHA-256"),  # the path of other bytes
        (("dmeo",), "dmeo: the channel test has no such project or file"),
        (("--where", f"sha256={'ab' * 32}"), "the channel test has no file that matches"),
        (("--where", "system=plan9"), "the channel test has no file that matches"),
        (("--where", "channel=x"), "--where: unknown axis 'channel'"),
        (("--cells", "none.toml"), "none.toml: No such file"),
    ],
)
def test_what_names_nothing_is_one_line(desk: Desk, asked: tuple[str, ...], fault: str) -> None:
    good = desk.push("1.0", *GOOD)
    (desk.folder / good.file_name).write_bytes(b"rebuilt")
    status, out, err = desk.promote(*(each.format(desk.folder / good.file_name) for each in asked))
    assert (status, out) == (4, "")
    assert fault in err
    assert err.count("\n") == 1


def test_nothing_comes_from_a_channel_that_the_policy_does_not_name(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    policy = GATE.replace('"test"', '"staging"')
    status, _, err = desk.promote(policy=policy)
    assert status == 4
    assert "channels.release: from: staging; it accepts no files from test" in err


def test_another_file_under_a_released_name_is_refused(desk: Desk) -> None:
    good = desk.push("1.0", *GOOD)
    join_channel(desk.store, "release", replace(good, sha256="f" * 64))
    status, out, _ = desk.promote()
    assert status == 1
    assert "the channel release has other bytes under that name" in out
    assert [each.sha256 for each in list_members(desk.store, "release")] == ["f" * 64]


def test_cells_name_the_policy_and_ask_for_their_gpu_stage(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD, system="linux", variant="cu130")
    (desk.folder / "gate.toml").write_text(GATE, encoding="utf-8")
    (desk.folder / "cells.toml").write_text(
        '[sources.release]\nindex = "https://example.org/simple"\ngate = "gate.toml"\n'
        '[[cells]]\nproject = "demo"\nsystem = "linux-x86_64"\npython = "3.12"\n'
        'variant = ["cpu", "cu130"]\nsource = "release"\n[[gpu]]\nwhen = "variant=cu*"\n',
        encoding="utf-8",
    )
    asked = ("promote", "--from", "test", "--to", "release", "--cells", desk.folder / "cells.toml")
    status, out, _ = desk.do(*asked)
    assert status == 1
    assert out.startswith(f"{artifact.file_name}: refused: gpu: no verdict;")
    rule = '[[channels.release.cells]]\nwhen = "variant=cu130"\ngpu = false\nreason = "no card"\n'
    (desk.folder / "gate.toml").write_text(GATE + rule, encoding="utf-8")
    assert desk.do(*asked)[0] == 0


def test_a_verdict_on_other_bytes_does_not_count(desk: Desk) -> None:
    good, bad = desk.push("1.0", *GOOD), desk.push("1.1")
    (name,) = desk.names(verdict_prefix(good.sha256))
    content = desk.store.read(name)
    assert content is not None
    desk.store.create(f"{verdict_prefix(bad.sha256)}{name.rpartition('/')[2]}", content)
    status, out, _ = desk.promote(bad.file_name)
    assert status == 1
    assert "a verdict for other bytes" in out


def test_a_promotion_is_signed_where_the_policy_names_promoters(desk: Desk) -> None:
    key, policy = desk.signed_policy("ann", 'signed = false\npromoters = ["ann"]\n')
    stranger, _ = make_key(desk.folder, "stranger")
    artifact = desk.push("1.0", *GOOD)
    for given in ((), ("--key", stranger)):
        status, _, err = desk.promote(*given, policy=policy)
        assert status == 4
        assert "--key: channels.release must be signed by one of ann" in err
    assert desk.promote("--key", key, policy=policy)[0] == 0
    (name,) = desk.names(promotion_prefix(artifact.sha256))
    assert b'"keyid"' in (desk.store.read(name) or b"")


@pytest.mark.parametrize("done", [1, 2])
def test_a_promotion_that_was_killed_leaves_no_member_and_the_next_one_ends_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    good = desk.push("1.0", *GOOD)
    made = 0
    create = type(desk.store).create

    def dies(store: Store, name: str, content: Any) -> bool:
        nonlocal made
        made += 1
        if made > done:
            raise KeyboardInterrupt
        return create(store, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(type(desk.store), "create", dies)
        with pytest.raises(KeyboardInterrupt):
            desk.promote()
    assert desk.released() == []
    assert desk.promote()[0] == 0
    assert desk.released() == [good.file_name]


def test_a_store_that_fails_on_the_way_says_what_is_in_and_what_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = desk.push("1.0", *GOOD), desk.push("1.1", *GOOD)
    create = type(desk.store).create

    def full(store: Store, name: str, content: Any) -> bool:
        if name.endswith(f"release/demo/{second.file_name}"):
            raise StoreError("no space left on device")
        return create(store, name, content)

    with monkeypatch.context() as patched:
        patched.setattr(type(desk.store), "create", full)
        status, out, _ = desk.promote()
    assert status == 6
    assert out.splitlines() == [
        f"{first.file_name}: promoted",
        f"{second.file_name}: not promoted: no space left on device",
        "1 promoted, 1 not promoted",
    ]
    assert desk.promote()[0] == 0
    assert len(desk.released()) == 2


def test_a_member_of_which_nothing_is_known_keeps_no_other_back(desk: Desk) -> None:
    good, lost = desk.push("1.0", *GOOD), desk.push("1.1", *GOOD)
    name = artifact_name(lost.sha256)
    desk.store.delete(name)
    desk.store.create(name, b"{")
    status, out, err = desk.promote("--all-or-nothing")
    assert (status, out) == (6, "")
    assert desk.released() == []
    status, out, err = desk.promote()
    assert (status, out) == (1, f"{good.file_name}: promoted\n1 promoted\n")
    assert err.count("\n") == 1
    assert name in err


def test_results_that_cannot_be_kept_are_one_line_each_and_keep_nothing(desk: Desk) -> None:
    artifact = desk.push("1.0")
    good = make_run(*GOOD, sha256=artifact.sha256)
    (package,) = good.packages
    twice = replace(good, packages=(package, replace(package, node="again.whl")))
    text = desk.result(artifact, *GOOD).read_text()
    documents = {
        "two verdicts on the same bytes": write_run(desk.folder / "twice.json", twice),
        "no sha256": write_run(desk.folder / "none.json", make_run(*GOOD, sha256="")),
        "does not contain this file": write_run(desk.folder / "other.json", make_run(*GOOD)),
        "is not a time in UTC": write_run(
            desk.folder / "odd.json",
            make_run(*GOOD, sha256=artifact.sha256, file_name=artifact.file_name, ended="noon"),
        ),
        "it has no package": write_run(
            desk.folder / "empty.json", RunResult(exit_code=0, profile=PROFILE, ended=ENDED)
        ),
    }
    for name, content in (
        ("not JSON", text[:-9]),
        ("its schema is", text.replace("result/1", "result/9")),
    ):
        documents[name] = desk.folder / f"{len(name)}.json"
        documents[name].write_text(content)
    status, out, err = desk.do("attest", *documents.values())
    assert (status, out) == (1, "")
    lines = [line for line in err.splitlines() if "there is no verdict" not in line]
    assert len(lines) == len(documents)
    for (fault, path), line in zip(documents.items(), lines, strict=True):
        assert fault in line
        assert str(path) in line
    assert desk.names(verdict_prefix(artifact.sha256)) == []


def test_a_result_on_several_packages_says_something_of_each(desk: Desk) -> None:
    one, two = desk.push("1.0"), desk.push("1.1")
    packages = tuple(
        package_result(each.file_name, *entries, sha256=each.sha256)
        for each, entries in ((one, GOOD), (two, BAD))
    )
    both = replace(make_run(*GOOD), packages=packages, exit_code=1)
    assert desk.attest(write_run(desk.folder / "both.json", both)) == 0
    words = [list_verdicts(desk.store, each.sha256)[0].verdict.word for each in (one, two)]
    assert words == ["passed", "failed"]


def test_attest_wants_results_or_a_night(desk: Desk) -> None:
    for asked in ((), ("r.json", "--night", "2026-11-20")):
        status, _, err = desk.do("attest", *asked)
        assert status == 4
        assert "give result documents, or --night DATE" in err


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"system": "linux", "python": "3.12", "variant": "cu130"}, True),
        ({"system": "linux", "python": "any", "variant": "cu130"}, True),
        ({"system": "linux", "python": "3.9+"}, True),
        ({"system": "linux", "python": "3.11, 3.12"}, True),
        ({"system": "linux", "python": "3.11"}, False),
        ({"system": "musllinux", "python": "3.12"}, False),
        ({"system": "linux", "variant": "cpu"}, False),
        ({"project": "other"}, False),
    ],
)
def test_a_file_has_a_gpu_stage_if_a_cell_that_has_one_may_be_it(
    tmp_path: Path, said: dict[str, str], found: bool
) -> None:
    cell = Cell(
        id="x", project="Demo", system="manylinux_2_28", python="3.12", variant="cu130", gpu=True
    )
    artifact, _ = make_artifact(tmp_path, **said)
    assert bool(find_with_gpu([cell], [artifact])) is found
    assert not find_with_gpu([replace(cell, gpu=False)], [artifact])
