"""From a channel with local versions to one that follows an index's rules."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from binary_checks.fleet.artifacts import (
    INSPECT_LIMIT,
    Artifact,
    Incoming,
    describe_relabelled,
    fetch_file,
    find_artifact,
    find_origin,
    hash_bytes,
    hash_file,
    join_channel,
    keep_artifact,
    list_members,
    list_origins,
    promoting,
    read_envelope,
    read_promotion,
    write_artifact,
)
from binary_checks.fleet.artifacts.limited_process import LimitedEnd
from binary_checks.fleet.retention.pruning import read_history
from binary_checks.fleet.retention.rules import expire
from binary_checks.fleet.store import artifact_name, origins_prefix
from fixtures.build_wheel import build_wheel
from tests.fleet.artifacts.made_verdicts import make_key
from tests.fleet.artifacts.release_desk import GOOD, Desk
from tests.plugin.conftest import command

LABEL = "+cu126"
RULES = '[channels.release]\nfrom = ["test"]\nfamilies = ["linkage"]\nrelabel = true\n'
PYPI = f'{RULES}upload_rules = "pypi"\n'
HEAD = "Metadata-Version: 2.1\nName: demo\n"
AXES = {
    "manylinux_2_28_x86_64": {"system": "linux", "architecture": "x86_64"},
    "linux_x86_64": {"system": "linux", "architecture": "x86_64"},
    "win_amd64": {"system": "windows", "architecture": "amd64"},
    "win_arm64": {"system": "windows", "architecture": "arm64"},
}
KNOWN = "Classifier: Programming Language :: Python :: 3\n"


@pytest.fixture(autouse=True)
def judged_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have files judged in this process, which takes a tenth of the time."""

    def run(arguments: tuple[str, ...], output: Path, timeout: float, _: str) -> LimitedEnd:
        assert timeout == INSPECT_LIMIT * sum(each.endswith(".whl") for each in arguments)
        done = command(output.parent, *arguments)
        lines = done.stderr.strip().splitlines()
        return LimitedEnd(done.returncode, lines[-1] if lines else "")

    monkeypatch.setattr(promoting, "run_limited", run)


def push(
    desk: Desk,
    *,
    version: str = f"1.0{LABEL}",
    platform: str = "manylinux_2_28_x86_64",
    headers: str = KNOWN,
    judged: bool = True,
) -> Artifact:
    """Push a real wheel without native code, as a platform wheel of that tag."""
    path = build_wheel(
        desk.folder,
        version=version,
        tags=(f"cp312-cp312-{platform}",),
        members={"demo.py": f"version = {version!r}\n"},
        metadata=f"{HEAD}Version: {version}\n{headers}\nabout\n",
    )
    file = hash_file(path)
    known = {"kind": "wheel", "project": "demo", "version": version, "python": "3.12"}
    known |= {"pushed": "2026-11-20T04:00:00+00:00"}
    known |= {"variant": version.partition("+")[2], **AXES[platform]}
    artifact = Artifact(sha256=file.sha256, file_name=path.name, size=file.size, **known)
    keep_artifact(desk.store, artifact, Incoming(file=file, metadata=b"as in the wheel"))
    join_channel(desk.store, "test", artifact)
    if judged:
        assert desk.attest(desk.result(artifact, *GOOD)) == 0
    return artifact


def released(desk: Desk) -> Artifact:
    (member,) = list_members(desk.store, "release")
    found = find_artifact(desk.store, member.sha256)
    assert found is not None
    return found


def refusals(out: str) -> list[str]:
    return [line.partition(": refused: ")[2] for line in out.splitlines() if "refused: " in line]


def test_a_file_enters_once_without_its_label(desk: Desk) -> None:
    artifact = push(desk)
    name = artifact.file_name.replace(LABEL, "")
    before = desk.names()
    status, out, _ = desk.promote("--dry-run", "--json", policy=RULES)
    (row,) = json.loads(out)["files"]
    assert (status, row["entering"]["file_name"]) == (0, name)
    assert desk.names() == before
    key, _ = make_key(desk.folder, "ann")
    status, out, err = desk.promote("--key", key, policy=RULES)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == f"{artifact.file_name}: promoted as {name}"
    made = released(desk)
    (stored,) = desk.store.names(origins_prefix(made.sha256))
    signed = read_envelope(desk.store.read(stored.name) or b"", stored.name)
    record = read_promotion(signed.payload, stored.name)
    assert len(signed.signatures) == 1
    assert (record.sha256, record.origin) == (made.sha256, artifact.sha256)
    assert (made.file_name, made.version, made.variant) == (name, "1.0", "cu126")
    assert list_origins(desk.store, made.sha256) == {artifact.sha256}
    assert find_origin(desk.store, made) == artifact
    assert desk.store.read(f"{made.object_name}.metadata") is not None
    (desk.folder / "fetched").mkdir()
    path = fetch_file(desk.store, made, desk.folder / "fetched")
    assert describe_relabelled(artifact, path) == made  # it follows from the old one
    before = desk.names()
    status, out, _ = desk.promote(policy=RULES)
    assert (status, out.splitlines()[0]) == (0, f"{artifact.file_name}: there already")
    assert desk.names() == before


def test_the_verdicts_on_the_old_bytes_decide(desk: Desk) -> None:
    push(desk, judged=False)
    status, out, _ = desk.promote(policy=RULES)
    assert status == 1
    assert "linkage: no verdict" in out
    assert list_members(desk.store, "release") == []


def test_a_name_that_other_bytes_have_is_refused(desk: Desk) -> None:
    push(desk)
    assert desk.promote(policy=RULES)[0] == 0
    push(desk, version="1.0+cpu")
    status, out, _ = desk.promote("--where", "version=1.0+cpu", policy=RULES)
    assert status == 1
    assert "the channel release has other bytes under that name" in out


# The rules of the index.


def test_each_thing_that_the_index_refuses_is_named(desk: Desk) -> None:
    pytest.importorskip("trove_classifiers")
    headers = "License-Expression: BSD\nClassifier: Topic :: Nothing\nRequires-Dist: a==1+cpu\n"
    good = push(desk, version=f"0.9{LABEL}")
    push(desk, platform="linux_x86_64", headers=headers)
    status, out, _ = desk.promote("--json", policy=PYPI)
    _, row = json.loads(out)["files"]
    assert status == 1
    assert [each.partition(":")[0] for each in sorted(row["reasons"])] == [
        "classifier-refused",
        "local-version-refused",
        "metadata-field-refused",
        "platform-tag-refused",
    ]
    assert desk.released() == [good.file_name.replace(LABEL, "")]


def test_a_label_that_stays_is_refused(desk: Desk) -> None:
    pytest.importorskip("trove_classifiers")
    push(desk)
    status, out, _ = desk.promote(policy=PYPI.replace("relabel = true\n", ""))
    assert status == 1
    assert refusals(out)[0].startswith("local-version-refused: its version has the local label")


def test_the_wheels_of_a_release_are_compared_also_with_those_that_are_there(desk: Desk) -> None:
    pytest.importorskip("trove_classifiers")
    push(desk)
    push(desk, platform="win_amd64")
    status, out, _ = desk.promote(policy=PYPI)
    assert (status, out.splitlines()[-1]) == (0, "2 promoted")  # the index accepts them
    other = push(desk, platform="win_arm64", headers=f"{KNOWN}Requires-Python: >=3.10\n")
    status, out, _ = desk.promote(other.file_name, policy=PYPI)
    assert status == 1
    (refusal,) = refusals(out)
    assert refusal.startswith("python-differs-in-release: ")
    assert any(name in refusal for name in desk.released())
    assert f"1.0{LABEL}-cp312-cp312-manylinux" not in refusal


def test_a_project_has_rules_of_its_own(desk: Desk) -> None:
    pytest.importorskip("trove_classifiers")
    (desk.folder / "own.toml").write_text(
        'extends = "pypi"\n[options.upload-too-large]\nlimit = 100\n'
    )
    push(desk)
    status, out, _ = desk.promote(policy=f'{RULES}upload_rules = "own.toml"\n')
    assert status == 1
    assert "upload-too-large: is " in refusals(out)[0]
    status, _, err = desk.promote(policy=f'{RULES}upload_rules = "gone.toml"\n')
    assert status == 4
    assert "gone.toml: No such file" in err


def test_other_packages_than_wheels_are_refused(desk: Desk) -> None:
    desk.push("1.0", *GOOD, name="libtorch-1.0.zip", kind="libtorch", project="libtorch")
    status, out, _ = desk.promote(policy=PYPI)
    assert status == 1
    assert "the index has only wheels" in out


# Verifying, and keeping, what was relabelled.


def verify(desk: Desk, policy: str = RULES) -> tuple[int, str]:
    (desk.folder / "own.toml").write_text(policy, encoding="utf-8")
    own = ("--policy", desk.folder / "own.toml")
    status, out, err = desk.do("verify", "--channel", "release", *own)
    assert err == ""
    return status, out


def test_the_new_bytes_are_made_again_and_their_verdicts_are_those_of_the_old(desk: Desk) -> None:
    push(desk)
    assert desk.promote(policy=RULES)[0] == 0
    status, out = verify(desk)
    assert status == 0, out
    status, out = verify(desk, RULES.replace("relabel = true\n", ""))
    assert status == 1
    assert "its gate refuses the file: linkage: no verdict" in out


@pytest.mark.parametrize("field", ["variant", "commit", "system", "pushed"])
def test_a_changed_document_of_the_new_file_is_found(desk: Desk, field: str) -> None:
    push(desk)
    assert desk.promote(policy=RULES)[0] == 0
    made = released(desk)
    name = artifact_name(made.sha256)
    desk.store.delete(name)
    desk.store.create(name, write_artifact(replace(made, **{field: "9"})))
    status, out = verify(desk)
    assert status == 1
    assert "its artifact.json is not that of demo-1.0+cu126-" in out


def test_other_bytes_with_a_stolen_origin_are_found(desk: Desk) -> None:
    push(desk)
    assert desk.promote(policy=RULES)[0] == 0
    made = released(desk)
    folder = desk.folder / "evil"
    evil = build_wheel(folder, tags=("cp312-cp312-win_amd64",), members={"demo.py": "import os\n"})
    file = hash_file(evil)
    fake = replace(
        made, sha256=file.sha256, file_name=evil.name, size=file.size, **AXES["win_amd64"]
    )
    keep_artifact(desk.store, fake, Incoming(file=file))
    join_channel(desk.store, "release", fake)
    for each in [*desk.names(f"packages/{made.sha256[:2]}/{made.sha256}/")]:
        if "/promotions/" in each or "/origins/" in each:
            content = desk.store.read(each) or b""
            forged = content.replace(made.sha256.encode(), fake.sha256.encode())
            forged = forged.replace(made.file_name.encode(), fake.file_name.encode())
            target = each.replace(made.sha256, fake.sha256).replace(
                made.sha256[:2] + "/", fake.sha256[:2] + "/"
            )
            parent = target.rpartition("/")[0]
            desk.store.create(f"{parent}/{hash_bytes(forged)}.json", forged)
    status, out = verify(desk)
    assert status == 1
    labelled = made.file_name.replace("-1.0-", f"-1.0{LABEL}-")
    assert f"it is not {labelled} without its local version" in out


def test_the_old_file_is_kept_as_long_as_the_new_one_is_in_a_channel(desk: Desk) -> None:
    artifact = push(desk)
    push(desk, version=f"2.0{LABEL}")
    assert desk.promote("--where", f"version=1.0{LABEL}", policy=RULES)[0] == 0
    later = datetime.now(timezone.utc) + timedelta(days=400)
    history = read_history(desk.store, "test")
    expired = expire(history, "test", later, keep=1)
    deleted = {each.name for each in expired.deletions}
    assert any(artifact.file_name in name and name.startswith("channels/") for name in deleted)
    assert artifact.object_name not in deleted


def test_what_cannot_be_inspected_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readme_renderer", None)
    push(desk, headers=f"{KNOWN}Description-Content-Type: text/x-rst\n")
    status, out, _ = desk.promote(policy=PYPI)
    assert status == 1
    (refusal,) = refusals(out)
    assert refusal.startswith("description-not-rendered: not inspected")
