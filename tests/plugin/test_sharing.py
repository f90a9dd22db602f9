"""How many processes judge the packages, and how they tell of it: what is found does not change."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from binary_checks.options import Program
from tests.plugin.conftest import command, faulty, healthy


@pytest.mark.slow
def test_packages_are_shared_among_the_workers_that_are_asked_for(tmp_path: Path) -> None:
    packages = [healthy(tmp_path / name) for name in "abcdef"]
    packages.append(faulty(tmp_path / "g"))
    alone = command(tmp_path, "--binary-static", "-v", *packages)
    shared = command(tmp_path, "--binary-static", "-v", "-n2", *packages)
    assert (alone.returncode, shared.returncode) == (1, 1)
    assert " workers [" in shared.stdout
    failed = f"FAILED g/{packages[-1].name}::absolute-search-path"
    assert failed in shared.stdout
    assert failed in alone.stdout
    counted = re.compile(r"(\d+ failed, \d+ passed, \d+ skipped)")
    assert counted.findall(alone.stdout) == counted.findall(shared.stdout) != []


def test_one_report_of_an_item_says_what_three_do_under_pytest(pytester: pytest.Pytester) -> None:
    package = faulty(pytester.path)
    (pytester.path / "profile.toml").write_text(
        '[[known_problems]]\ncheck = "executable-stack"\nreason = "unused"\n'
    )
    own = ["--binary-static", "--binary-profile=profile.toml", "-rA", package.name]
    command(pytester.path, *own, "--junitxml=command.xml")
    pytester.runpytest_inprocess(*own, "--junitxml=pytest.xml")
    name_options = Program.COMMAND.name_options  # pytest's are longer
    cases = [
        {
            (
                case.get("name"),
                *((child.tag, name_options(child.get("message", ""))) for child in case),
            )
            for case in ElementTree.parse(pytester.path / name).iter("testcase")
        }
        for name in ("command.xml", "pytest.xml")
    ]
    assert cases[0] == cases[1]
    tags = {child[0] for case in cases[0] for child in case[1:]}
    assert tags == {"failure", "skipped"}
