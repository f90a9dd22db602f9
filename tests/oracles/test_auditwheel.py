"""The lowest tag is the one that auditwheel finds, where the package needs nothing of others."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from binary_checks import examine
from binary_checks.knowledge.tags import find_lowest_tags
from binary_checks.model import Linkage, Package
from tests.oracles.downloads import download

pytest.importorskip("auditwheel", reason="it is in the group oracles")
pytestmark = [pytest.mark.slow, pytest.mark.network]
PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in (34, 28, 27, 17, 5))
WHEELS = ["numpy==2.4.6", "cryptography==50.0.2", "lxml==6.1.3", "pillow==13.0.0"]
WHEELS += ["pynacl==1.6.2", "pydantic-core==2.50.4", "google-re2==1.1.20251105", "uv==0.13.8"]
OUTSIDE = ["python-rtmidi==1.5.8", "tensorflow-io-gcs-filesystem==0.37.1"]
"""They need a library that no policy has."""


def show(wheel: Path) -> str:
    """What auditwheel says: "linux_x86_64" where no tag of manylinux is true."""
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = re.search(r'following platform tag:\s+"([^"]+)"', done.stdout)
    assert found, done.stdout
    return found[1]


def lowest(wheel: Path) -> str:
    with examine(wheel) as facts:
        (found,) = find_lowest_tags(facts.get(Package), facts.get(Linkage))
    return found.tag or f"linux_{found.architecture}"


def test_it_is_the_same_for_published_wheels(tmp_path: Path) -> None:
    wheels = download(tmp_path, PLATFORMS, [*WHEELS, *OUTSIDE])
    assert {each.name: lowest(each) for each in wheels} == {
        each.name: show(each) for each in wheels
    }
