"""How libraries are linked into published wheels, against symbol tables and the projects' own word.

``SWEEP_WHEELS`` may name a folder that has the wheels already, or some of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.knowledge.linked_libraries import library_of_file
from binary_checks.model import LinkedLibraries
from fixtures.sweep.fetch import FetchError, choose, fetch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LIST = Path(__file__).parents[2] / "fixtures" / "sweep" / "linked.toml"
NM = shutil.which("llvm-nm")  # which reads Mach-O and PE too


def read_proofs() -> Mapping[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in tomllib.loads(LIST.read_text(encoding="utf-8"))["linked"]:
        found[row["file"]].append(row)
    return found


PROOFS = read_proofs()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("SWEEP_WHEELS")
    return Path(given) if given else tmp_path_factory.mktemp("wheels")


def find_wheel(file: str, folder: Path) -> Path:
    (wheel,) = choose(file)
    try:
        fetch(wheel, folder)
    except FetchError as error:
        pytest.skip(f"{file}: {error}")
    return folder / file


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("file", sorted(PROOFS))
def test_what_is_proven_is_found_and_nothing_that_contradicts_it(file: str, folder: Path) -> None:
    with examine(find_wheel(file, folder)) as facts:
        found = facts.get(LinkedLibraries).libraries
    rows = {(each.name, each.linking.value, each.version) for each in found}
    for proven in PROOFS[file]:
        assert (proven["library"], proven["linking"], proven["version"]) in rows
        if "proof" in proven:  # of the package as a whole
            other = {"static": "dynamic", "dynamic": "static"}[proven["linking"]]
            assert (proven["library"], other) not in {row[:2] for row in rows}


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.skipif(NM is None, reason="llvm-nm is not here")
@pytest.mark.parametrize("file", sorted(name for name in PROOFS if "symbol" in PROOFS[name][0]))
def test_the_symbols_are_there_that_prove_it(file: str, folder: Path, tmp_path: Path) -> None:
    wheel = find_wheel(file, folder)
    for row in PROOFS[file]:
        native = tmp_path / "object"
        with zipfile.ZipFile(wheel) as archive:
            ending = row["object"].rpartition("../")[2]
            (name, *_) = (each for each in archive.namelist() if each.endswith(ending))
            native.write_bytes(archive.read(name))
        assert row["symbol"] in list_defined(native) | list_defined(native, "-D")


def list_defined(native: Path, *how: str) -> set[str]:
    """The symbols that nm lists as defined; Mach-O and PE have no table of dynamic ones."""
    command = [str(NM), *how, "--defined-only", str(native)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace")
    return {line.split()[-1] for line in done.stdout.splitlines() if line.strip()}


def test_the_list_is_of_wheels_that_are_pinned_and_libraries_that_are_known() -> None:
    pinned = {wheel.file for wheel in choose()}
    assert len(PROOFS) >= 40
    assert PROOFS.keys() <= pinned
    for rows in PROOFS.values():
        for row in rows:
            assert {"proof"} & row.keys() or {"object", "symbol"} <= row.keys()
            assert row["linking"] in ("static", "dynamic")
            assert library_of_file(f"{row['library']}.so") is not None
