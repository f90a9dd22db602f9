"""What the user gives beside a package is read whole, and installed only as far as it is wanted."""

from __future__ import annotations

from pathlib import Path

from binary_checks.examination.facts import Facts
from binary_checks.gather.companions import Companions
from binary_checks.model import InstallReport
from binary_checks.sources.file import FileSource
from fixtures.build_wheel import build_wheel
from fixtures.environments import PURE, running


def test_a_folder_may_hold_what_the_interpreter_does_not_take(tmp_path: Path) -> None:
    build_wheel(tmp_path, name="other", tags=("cp27-none-win32",))
    build_wheel(tmp_path, name="wanted", tags=PURE)
    judged = build_wheel(tmp_path, tags=PURE, requires=("wanted",), members={"demo.py": ""})
    shelf = Companions((tmp_path,))
    facts = Facts(FileSource(path=judged), running(given=(tmp_path,)), shelf)
    assert facts.get(InstallReport).error == ""
    assert [package.path.name.partition("-")[0] for package in shelf.others(judged)] == [
        "other",
        "wanted",
    ]
    facts.close()
