"""An attacker with write access to a store gets nothing promoted, and verifying reports it."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from binary_checks.fleet.artifacts import (
    Artifact,
    find_contradiction_in_name,
    hash_bytes,
    write_artifact,
)
from binary_checks.fleet.store import (
    artifact_name,
    promotion_prefix,
    verdict_name,
    verdict_prefix,
    withdrawn_name,
)
from tests.fleet.artifacts.release_desk import BAD, GATE, GOOD, Desk

LESS_OF_WINDOWS = """
[[channels.release.cells]]
when = "system=windows"
families = ["linkage"]
reason = "no host"
"""


def verify(desk: Desk, *options: object) -> list[str]:
    """What verifying says, but of bytes that are no wheel here."""
    lines = desk.do("verify", *options)[1].splitlines()
    faults = [line for line in lines if f"{desk.store.url}: verified" not in line]
    return [
        line for line in faults if "not a zip archive" not in line and "not verified" not in line
    ]


def rewrite(desk: Desk, artifact: Artifact) -> None:
    name = artifact_name(artifact.sha256)
    desk.store.delete(name)
    desk.store.create(name, write_artifact(artifact))


def put_zeros(desk: Desk, name: str, size: int) -> None:
    """An object that takes no room on the disk."""
    path = desk.folder / "store" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def test_a_channel_from_which_files_were_promoted_is_no_gated_one(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    desk.push("1.1", *BAD)
    assert desk.promote()[0] == 1
    assert verify(desk) == []


def test_a_document_that_speaks_of_another_system_passes_no_gate_that_asks_less_of_it(
    desk: Desk,
) -> None:
    policy = GATE.replace('["linkage"]', '["linkage", "runtime"]') + LESS_OF_WINDOWS
    artifact = desk.push("1.0", *GOOD)
    rewrite(desk, replace(artifact, system="windows"))
    status, out, _ = desk.promote(policy=policy)
    assert status == 1
    assert "artifact.json says system windows, but its file name says linux" in out
    assert desk.released() == []
    assert any("artifact.json says system windows" in line for line in verify(desk))


def test_a_member_whose_document_was_changed_after_its_promotion_is_found(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    rewrite(desk, replace(artifact, python="3.9"))
    said = verify(desk, "--channel", "release")
    assert any(
        "artifact.json says python 3.9, but its file name says 3.12" in line for line in said
    )


@pytest.mark.parametrize(
    ("tags", "axes"),
    [
        ("cp39-abi3-manylinux_2_28_aarch64", ("linux", "aarch64", "3.9+")),
        ("cp39-abi3-manylinux_2_28_aarch64", ("linux", "aarch64", "3.12")),  # told more precisely
        ("cp313-cp313t-musllinux_1_2_x86_64", ("musllinux", "x86_64", "3.13t")),
        ("cp312-cp312-linux_x86_64", ("musllinux", "x86_64", "3.12")),
        ("cp312-cp312-win_amd64", ("windows", "amd64", "3.12")),
        ("cp312-cp312-macosx_11_0_universal2", ("macos", "arm64, x86_64", "3.12")),
        ("py3-none-any", ("any", "any", "any")),
        ("py3-none-any", ("linux", "x86_64", "3.12")),  # set by hand
        ("cp312-cp312-pyodide_2024_0_wasm32", ("emscripten", "wasm32", "3.12")),
    ],
)
def test_axes_as_a_push_records_them_are_no_lie(tags: str, axes: tuple[str, str, str]) -> None:
    assert find_contradiction_in_name(_make(tags, axes)) == ""


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        (("musllinux", "x86_64", "3.12"), "system musllinux, but its file name says linux"),
        (
            ("linux, windows", "x86_64", "3.12"),
            "system linux, windows, but its file name says linux",
        ),
        (("", "x86_64", "3.12"), "no system, but its file name says linux"),
        (("linux", "aarch64", "3.12"), "architecture aarch64, but its file name says x86_64"),
        (("linux", "x86_64", "3.12t"), "python 3.12t, but its file name says 3.12"),
        (("linux", "x86_64", "any"), "python any, but its file name says 3.12"),
    ],
)
def test_axes_that_the_name_contradicts_are_one(axes: tuple[str, str, str], said: str) -> None:
    found = find_contradiction_in_name(_make("cp312-cp312-manylinux_2_28_x86_64", axes))
    assert found == f"artifact.json says {said}"


def _make(tags: str, axes: tuple[str, str, str]) -> Artifact:
    system, architecture, python = axes
    return Artifact(
        sha256="a" * 64,
        file_name=f"demo-1.0-{tags}.whl",
        size=1,
        kind="wheel",
        project="demo",
        system=system,
        architecture=architecture,
        python=python,
    )


def test_a_verdict_on_a_file_that_was_renamed_in_the_store_does_not_count(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    (name,) = desk.names(verdict_prefix(artifact.sha256))
    content = (desk.store.read(name) or b"").replace(b"demo-1.0-", b"demo-0.9-")
    desk.store.delete(name)
    desk.store.create(verdict_name(artifact.sha256, hash_bytes(content)), content)
    status, out, _ = desk.promote()
    assert status == 1
    assert (
        "it is about demo-0.9-cp312-cp312-manylinux_2_28_x86_64.whl, a file with the same bytes"
        in out
    )


def test_verdicts_without_end_are_lines_and_never_read(desk: Desk) -> None:
    good, other = desk.push("1.0", *GOOD), desk.push("1.1", *GOOD)
    put_zeros(desk, verdict_name(good.sha256, "0" * 64), 1 << 40)
    for number in range(1, 131):
        put_zeros(desk, verdict_name(other.sha256, f"{number:064x}"), 4 << 20)
    status, out, _ = desk.promote()
    assert status == 1
    assert desk.released() == [good.file_name]
    assert f"{other.file_name}: refused: {desk.store.url}: packages/" in out
    assert "bytes of verdicts; at most 536,870,912 are allowed; somebody tampered" in out
    faults = [line for line in verify(desk, "--channel", "release") if "larger than" in line]
    assert len(faults) == 1


def test_of_many_verdicts_that_count_for_nothing_some_are_shown(desk: Desk) -> None:
    artifact = desk.push("1.0")
    for number in range(60):
        desk.store.create(verdict_name(artifact.sha256, f"{number:064x}"), b"{}")
    status, out, _ = desk.promote()
    assert status == 1
    assert out.count("its bytes do not match its name") == 50
    assert "and 10 more invalid verdicts: --json lists them" in out


@pytest.mark.parametrize("prefix", [verdict_prefix, promotion_prefix])
def test_what_lies_beside_what_counts_is_verified_too(desk: Desk, prefix: object) -> None:
    artifact = desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    assert callable(prefix)
    desk.store.create(f"{prefix(artifact.sha256)}{'0' * 64}.json", b"{}")
    (fault,) = verify(desk)
    assert fault.startswith(f"{artifact.file_name}: {desk.store.url}: ")
    assert fault.endswith("its bytes do not match its name")


def test_the_index_of_a_channel_whose_members_are_gone_is_verified_too(desk: Desk) -> None:
    desk.push("1.0", *GOOD)
    assert desk.promote()[0] == 0
    shutil.rmtree(Path(desk.store.url) / "channels/release")
    (fault,) = verify(desk)
    assert fault.startswith("release: its index does not match its members: ")


def test_a_withdrawal_without_end_is_one_line(desk: Desk) -> None:
    artifact = desk.push("1.0", *GOOD)
    put_zeros(desk, withdrawn_name("test", "demo", artifact.sha256), 1 << 40)
    status, out, err = desk.promote()
    assert (status, out) == (6, "")
    assert err.count("\n") == 1
    assert "larger than 65536 bytes" in err
