"""artifact.json is not signed, so gates believe only signed verdicts and the bytes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from binary_checks.fleet.artifacts import (
    Artifact,
    PackageVerdict,
    StatedField,
    inspect_file,
    keep_verdict,
    list_artifacts,
    list_verdicts,
    load_signing_key,
    write_artifact,
)
from binary_checks.fleet.artifacts import promoting as proven_fields
from binary_checks.fleet.store import artifact_name, open_store, verdict_prefix
from fixtures.build_conda import build_conda
from fixtures.build_cpp_archive import build_cpp_archive
from fixtures.build_elf import build_elf
from fixtures.build_wheel import build_wheel
from tests.fleet.artifacts.made_verdicts import make_key, make_run, write_run
from tests.fleet.artifacts.release_desk import GATE, GOOD, Desk

EXTENSION = "demo/_x.cpython-312-x86_64-linux-gnu.so"
TAGS = ("cp312-cp312-manylinux_2_28_x86_64",)
OBJECT = build_elf(needed=("libc.so.6",))
GPU = '[[channels.release.cells]]\nwhen = "variant=cu*"\ngpu = true\n'
LESS = GATE.replace('["linkage"]', '["linkage", "runtime"]') + (
    '[[channels.release.cells]]\nwhen = "{}"\nfamilies = ["linkage"]\nreason = "no host"\n'
)


@dataclass(frozen=True)
class Pushed:
    """A folder with a store, into which real packages were pushed, and the results of a run."""

    folder: Path
    names: Mapping[str, str]  # by what they are: the names of their files


def write_packages(folder: Path) -> dict[str, Path]:
    members: Any = {"demo/__init__.py": "", EXTENSION: OBJECT}
    in_prefix: Any = {"lib/python3.12/site-packages/demo/__init__.py": "", "lib/libdemo.so": OBJECT}
    archive = "libtorch-shared-with-deps-2.5.0+cu130.zip"
    return {
        "wheel": build_wheel(folder, version="1.0+cu130", tags=TAGS, members=members),
        "plain": build_wheel(folder, name="plain", tags=TAGS, members=members),
        "conda": build_conda(folder, build="cuda130_py311h0123abc_0", members=in_prefix),
        "libtorch": build_cpp_archive(folder, {"lib/libtorch.so": OBJECT}, name=archive),
    }


def write_result(path: Path, file: Path, sha256: str) -> Path:
    """The result of a run that found the file to be what its bytes and its name say."""
    with inspect_file(file) as inspected:
        package, found = inspected.statement.package, inspected.statement.configuration
    known = {"name": package.name, "version": package.version, "configuration": found}
    return write_run(path, make_run(*GOOD, sha256=sha256, file_name=file.name, known=known))


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Pushed:
    folder = tmp_path_factory.mktemp("pushed")
    files = write_packages(folder)
    desk = Desk(folder, open_store(str(folder / "store"), make=True), Silent())  # type: ignore[arg-type]
    common = ("--channel", "test", "--commit", "c" * 40, "--no-index")
    for name, file in files.items():
        by_hand = ("--set", "variant=cu130") if name == "plain" else ()
        assert desk.do("push", file, *common, *by_hand)[0] == 0
    digests = {each.file_name: each.sha256 for each in list_artifacts(desk.store)}
    for name, file in files.items():
        write_result(folder / f"{name}.json", file, digests[file.name])
    return Pushed(folder, {name: file.name for name, file in files.items()})


class Silent:
    """What a desk asks for its output, where no test reads it."""

    def readouterr(self) -> Any:
        return type("Said", (), {"out": "", "err": ""})


class SigningDesk(Desk):
    """A desk with a copy of the store that was pushed to, and a key that its policies list."""

    def open(self, pushed: Pushed) -> None:
        shutil.copytree(pushed.folder, self.folder, dirs_exist_ok=True)
        self.names_of = pushed.names
        self.key, public = make_key(self.folder)
        self.keys = f'[[keys]]\nname = "ci"\npublic = "{public}"\n'

    def find(self, name: str) -> Artifact:
        found = {each.file_name: each for each in list_artifacts(self.store)}
        return found[self.names_of[name]]

    def sign(self, name: str, *options: object) -> tuple[int, str, str]:
        return self.do("attest", self.folder / f"{name}.json", "--key", self.key, *options)

    def lie(self, name: str, **changes: str) -> None:
        artifact = replace(self.find(name), **changes)  # type: ignore[arg-type]
        where = artifact_name(artifact.sha256)
        self.store.delete(where)
        self.store.create(where, write_artifact(artifact))

    def try_promoting(self, name: str, policy: str) -> str:
        """What promoting a file says of it."""
        self.promoted = self.names_of[name]
        _, out, err = self.promote(self.promoted, policy=self.keys + policy)
        assert err == ""
        return out.splitlines()[0].removeprefix(f"{self.names_of[name]}: ")

    def verify_gates(self, policy: str, *options: object) -> list[str]:
        """What verifying says of promotions by that policy."""
        (self.folder / "own.toml").write_text(self.keys + policy, encoding="utf-8")
        asked = ("verify", "--channel", "release", "--policy", self.folder / "own.toml")
        lines = self.do(*asked, *options)[1].splitlines()
        return [line for line in lines if line.startswith(f"release: {self.promoted}: ")]

    def change_verdict(self, name: str, **changes: Any) -> PackageVerdict:
        """Sign another verdict in the place of the one that there is."""
        sha256 = self.find(name).sha256
        (kept,) = list_verdicts(self.store, sha256)
        for each in self.names(verdict_prefix(sha256)):
            self.store.delete(each)
        verdict = replace(kept.verdict, **changes)
        assert keep_verdict(self.store, verdict, [load_signing_key(str(self.key))])
        return verdict


@pytest.fixture
def signing(tmp_path: Path, capsys: pytest.CaptureFixture[str], pushed: Pushed) -> SigningDesk:
    shutil.copytree(pushed.folder / "store", tmp_path / "store")
    desk = SigningDesk(tmp_path, open_store(str(tmp_path / "store")), capsys)
    desk.open(pushed)
    return desk


@pytest.mark.parametrize("name", ["wheel", "conda", "libtorch"])
def test_a_variant_that_was_changed_in_the_store_escapes_no_gpu(
    signing: SigningDesk, name: str
) -> None:
    assert signing.sign(name)[0] == 0
    assert signing.find(name).variant == "cu130"
    assert signing.try_promoting(name, GATE + GPU).startswith("refused: gpu: no verdict")
    signing.lie(name, variant="cpu")
    said = signing.try_promoting(name, GATE + GPU)
    assert "artifact.json says variant cpu, but its" in said
    assert "cu130" in said
    assert signing.released() == []


@pytest.mark.parametrize("name", ["wheel", "conda", "libtorch"])
def test_a_variant_that_was_changed_after_the_promotion_is_found_by_the_verifiers_policy(
    signing: SigningDesk, name: str
) -> None:
    signing.sign(name)
    assert signing.try_promoting(name, GATE) == "promoted"
    assert signing.verify_gates(GATE) == []
    signing.lie(name, variant="cpu")
    (line,) = signing.verify_gates(GATE + GPU)
    assert "artifact.json says variant cpu, but its" in line
    assert "cu130" in line


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("conda", "system", "windows"),
        ("conda", "architecture", "aarch64"),
        ("conda", "python", "3.12"),
        ("conda", "subdir", "noarch"),
        ("conda", "project", "other"),
        ("conda", "version", "2.0"),
        ("libtorch", "libtorch", "static-with-deps"),
        ("libtorch", "system", "windows"),
        ("libtorch", "architecture", "aarch64"),
        ("libtorch", "cxx_abi", "pre-cxx11"),
        ("libtorch", "kind", "library"),
        ("wheel", "version", "1.0+cpu"),
        ("wheel", "project", "other"),
    ],
)
def test_every_field_that_a_rule_reads_is_held(
    signing: SigningDesk, name: str, field: str, value: str
) -> None:
    """A rule that asks less of other files lets in none that only artifact.json says to be one."""
    rule = LESS.format(f"{field}={value}")
    signing.sign(name)
    assert signing.try_promoting(name, rule).startswith("refused: runtime: no verdict")
    signing.lie(name, **{field: value})
    said = signing.try_promoting(name, rule)
    assert f"artifact.json says {field} {value}, " in said
    assert signing.released() == []


def test_a_gate_that_reads_no_field_asks_for_none(signing: SigningDesk) -> None:
    signing.sign("conda")
    signing.lie("conda", variant="cpu")
    assert signing.try_promoting("conda", GATE) == "promoted"


@contextmanager
def nothing_is_inspected(path: Path) -> Any:
    raise AssertionError(f"{path} was fetched and inspected")
    yield


def test_no_bytes_are_read_where_the_verdict_states_what_the_gate_reads(
    signing: SigningDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proven_fields, "inspect_file", nothing_is_inspected)
    rule = LESS.format("system=windows variant=cpu architecture=x86 cxx_abi=cxx11 libtorch=x")
    for name in ("wheel", "conda"):
        signing.sign(name)
        assert signing.try_promoting(name, rule.replace(', "runtime"', "")) == "promoted"


def test_of_a_verdict_that_states_nothing_the_bytes_decide(signing: SigningDesk) -> None:
    rule = LESS.format("variant=cu130 system=linux python=3.*")
    for name in ("wheel", "conda", "libtorch"):
        signing.sign(name)
        signing.change_verdict(name, stated=())
        signing.lie(name, variant="cpu")
        said = signing.try_promoting(name, LESS.format("variant=cpu"))
        assert "artifact.json says variant cpu, but its" in said
        assert "cu130" in said
        signing.lie(name, variant="cu130")
    for name in ("wheel", "conda"):
        assert signing.try_promoting(name, rule) == "promoted"


def test_an_axis_that_was_set_by_hand_counts_once_it_is_attested(signing: SigningDesk) -> None:
    rule = LESS.format("variant=cu130")
    signing.sign("plain")
    said = signing.try_promoting("plain", rule)
    assert said == (
        "refused: artifact.json says variant cu130, which neither its bytes nor any verdict "
        "confirm; if the value is right, state it: `artifact attest RESULT --set variant=cu130`"
    )
    assert signing.sign("plain", "--set", "variant=cu130")[0] == 0
    stated = "but its verdict states variant cu130"
    for value, state in (
        ("", f"refused: artifact.json says no variant, {stated}; somebody tampered"),
        ("cpu", f"refused: artifact.json says variant cpu, {stated}; if variant cpu is right, "),
        ("cu130", "refused: gpu: no verdict"),
    ):
        signing.lie("plain", variant=value)
        assert signing.try_promoting("plain", GATE + GPU).startswith(state)
    assert signing.try_promoting("plain", rule) == "promoted"


def test_nobody_attests_an_axis_that_the_file_contradicts(signing: SigningDesk) -> None:
    status, out, err = signing.sign("wheel", "--set", "variant=cpu")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "variant: cpu is set by hand, but the label cu130 says cu130" in err
    signing.sign("wheel")
    signing.change_verdict("wheel", stated=(StatedField(name="variant", value="cpu"),))
    said = signing.try_promoting("wheel", LESS.format("variant=cu130"))
    assert "artifact.json says variant cu130, but its verdict states variant cpu" in said
    signing.lie("wheel", variant="cpu")
    said = signing.try_promoting("wheel", LESS.format("variant=cpu"))
    assert "artifact.json says variant cpu, but its file name says cu130" in said


def test_verdicts_of_one_time_that_contradict_each_other_prove_nothing(
    signing: SigningDesk,
) -> None:
    for value in ("cu130", "cpu"):
        signing.sign("plain", "--set", f"variant={value}")
    said = signing.try_promoting("plain", LESS.format("variant=cu130"))
    assert said.startswith(
        "refused: verdicts that ended at the same time disagree on variant: cpu and cu130; "
    )


@pytest.mark.parametrize("words", [("--set", "variant"), ("--set", "colour=red")])
def test_only_a_field_of_the_file_is_set(signing: SigningDesk, words: tuple[str, ...]) -> None:
    status, _, err = signing.sign("wheel", *words)
    assert status == 4
    assert err.count("\n") == 1


def test_the_name_that_was_judged_is_the_name_that_is_signed(signing: SigningDesk) -> None:
    signing.lie("libtorch", file_name="libtorch-shared-with-deps-2.5.0+cpu.zip")
    status, out, err = signing.sign("libtorch")
    assert (status, out) == (1, "")
    assert "stores this file as libtorch-shared-with-deps-2.5.0+cpu.zip: judge it under" in err


def test_a_matrix_finds_its_gpu_files_by_what_is_proven(signing: SigningDesk) -> None:
    (signing.folder / "gate.toml").write_text(signing.keys + GATE, encoding="utf-8")
    (signing.folder / "cells.toml").write_text(
        '[sources.release]\nconda = "https://example.org/conda"\ngate = "gate.toml"\n'
        '[[cells]]\nproject = "demo"\nkind = "conda"\nvariant = ["cpu", "cu130"]\n'
        'source = "release"\n[[gpu]]\nwhen = "variant=cu*"\n',
        encoding="utf-8",
    )
    signing.sign("conda")
    signing.lie("conda", variant="cpu")
    asked = ("--from", "test", "--to", "release", "--cells", signing.folder / "cells.toml")
    status, out, _ = signing.do("promote", signing.names_of["conda"], *asked)
    assert status == 1
    assert "artifact.json says variant cpu, but its verdict states variant cu130" in out
    assert signing.try_promoting("conda", GATE) == "promoted"  # its record knows of no matrix
    assert signing.verify_gates(GATE) == []
    for value, fault in (("cpu", "its verdict states variant cu130"), ("cu130", "gpu: no verdict")):
        signing.lie("conda", variant=value)
        (line,) = signing.verify_gates(GATE, "--cells", signing.folder / "cells.toml")
        assert fault in line
