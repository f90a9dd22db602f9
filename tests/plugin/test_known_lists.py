"""Published lists of known problems in a run: where they hold, and how a run ends without them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from binary_checks.model import UNREADABLE, Entry, Outcome, Problem
from binary_checks.plugin.session import are_in_doubt, read_now
from binary_checks.profile import FOLLOW_UP
from fixtures.package_index import PackageIndex
from fixtures.runs import package_result
from tests.plugin.conftest import TRY_AGAIN, Run, faulty, healthy

pytest.importorskip("urllib3", reason="no urllib3, which asks servers")

ENTRY = """
[[known_problems]]
check = "absolute-search-path"
reason = "the build folder goes next week"
owner = "build team"
issue = "https://example.org/7"
"""
LIST = f"issued = 2026-11-01\nvalid_until = 2126-11-30\n{ENTRY}"
ENDED = f"valid_until = 2026-11-01\n{ENTRY}"


def publish(index: PackageIndex, text: str) -> str:
    index.conduct["/known.toml"].body = text.encode()
    return f"{index.url}/known.toml"


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def judge(run: Run, wheel: Path, *arguments: str) -> pytest.RunResult:
    report = f"json:{wheel.parent / 'result.json'}"
    return run(wheel, "--binary-report", report, *arguments)


def test_a_list_behind_a_url_accepts_and_the_result_says_which_held(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    text = f'{LIST}[[known_problems]]\ncheck = "of-next-year"\nreason = "x"\n'
    url = publish(index, text)
    ended = judge(run, faulty(tmp_path), "--binary-known-problems", f"{url}?token=s3cret")
    assert ended.ret == 0
    said = "known problems of unknown checks are ignored: of-next-year"
    assert said in ended.stdout.str()
    assert "s3cret" not in ended.stdout.str()
    assert result(tmp_path)["known_lists"] == [
        {
            "source": url,
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "issued": "2026-11-01",
            "valid_until": "2126-11-30",
        }
    ]


@pytest.mark.slow
def test_workers_judge_by_the_list_that_was_fetched_once(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    url = publish(index, LIST)
    index.conduct["/known.toml"].changes = True  # else a second question would cost nothing
    ended = judge(
        run, faulty(tmp_path), "--binary-known-problems", url, "-n", "2", "--dist", "load"
    )
    assert ended.ret == 0
    assert index.asked == ["/known.toml"]


def test_without_its_list_a_package_that_fails_is_to_be_tried_again(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    url = publish(index, ENDED)
    ended = judge(run, faulty(tmp_path), "--binary-known-problems", url)
    assert ended.ret == TRY_AGAIN
    (complaint,) = result(tmp_path)["complaints"]
    assert complaint.startswith(f"known list unavailable: {url}: ")
    ended.stdout.fnmatch_lines([complaint.replace("[", "[[]")])
    assert result(tmp_path)["known_lists"][0]["complaint"]


def test_without_its_list_a_package_that_passes_passes_and_the_run_says_so(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    index.conduct["/known.toml"].failures = [403]  # which is not asked again, as 500 is
    url = f"{index.url}/known.toml"
    ended = judge(run, healthy(tmp_path), "--binary-known-problems", url)
    assert ended.ret == 0
    assert f"known list unavailable: {url}: answers 403" in ended.stdout.str()
    assert result(tmp_path)["remarks"][-1].startswith("known list unavailable: ")


@pytest.mark.slow
def test_the_copy_that_stands_in_is_said(run: Run, index: PackageIndex, tmp_path: Path) -> None:
    url, wheel = publish(index, LIST), faulty(tmp_path)
    assert judge(run, wheel, "--binary-known-problems", url).ret == 0
    index.conduct["/known.toml"].failures = [500] * 9
    ended = judge(run, wheel, "--binary-known-problems", url)
    assert ended.ret == 0
    ended.stdout.fnmatch_lines([f"known problems {url}: answers 500*; the copy of * is used, *"])
    (held,) = result(tmp_path)["known_lists"]
    assert held["cached"] is True
    assert held["remark"].startswith("answers 500")


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        (("--binary-cell", "python=3.13 variant=cu126"), 0),
        pytest.param((), 1, marks=pytest.mark.slow),
    ],
)
def test_an_entry_for_some_cells_holds_where_the_run_is_one_of_them(
    run: Run, tmp_path: Path, cell: tuple[str, ...], code: int
) -> None:
    (tmp_path / "known.toml").write_text(f'{ENTRY}cells = "variant=cu* python=3.1?"\n')
    known = ("--binary-known-problems", str(tmp_path / "known.toml"))
    ended = run(faulty(tmp_path), "-k", "absolute-search-path", *known, *cell)
    assert ended.ret == code
    said = "1 known problem is ignored outside of certain cells: --binary-cell names"
    assert (said in ended.stdout.str()) == (not cell)


@pytest.mark.slow
def test_a_list_holds_at_the_time_that_is_given(run: Run, tmp_path: Path) -> None:
    known, wheel = tmp_path / "known.toml", faulty(tmp_path)
    known.write_text(f"{ENDED}expires = 2026-10-31\n")
    given = ("--binary-known-problems", str(known), "--binary-known-at")
    assert run(wheel, *given, "2026-10-31T23:00:00Z").ret == 0
    assert run(wheel, *given, "2026-11-02T00:00:00Z").ret == TRY_AGAIN


@pytest.mark.parametrize("text", ["2026-11-01", "soon", "", "2026-11-01T10:00:00"])
def test_a_time_that_is_none_is_one_line(text: str) -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(binary_known_at=text))
    with pytest.raises(pytest.UsageError, match="not a time such as 2026-11-22T04:00:00Z"):
        read_now(config)


def test_what_no_entry_can_accept_is_beyond_doubt() -> None:
    found = Entry(
        check="c", family="f", outcome=Outcome.FAILED, problems=(Problem(sentence="needs x"),)
    )
    unreadable = replace(found, reason=UNREADABLE)
    expired = replace(found, problems=(Problem(sentence="x", cause=f"{FOLLOW_UP}k.toml"),))
    passed = replace(found, outcome=Outcome.PASSED, problems=())
    assert are_in_doubt([package_result("a.whl", found, passed), package_result("b.whl", passed)])
    assert not are_in_doubt([package_result("a.whl", passed)])
    for beyond in (unreadable, expired):
        assert not are_in_doubt([package_result("a.whl", found, beyond)])


def test_a_list_that_is_a_file_loads_nothing_that_asks_servers(tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(LIST)
    script = (
        "import sys; from binary_checks.command import main; status = main(sys.argv[1:]); "
        "print(sorted({'urllib3', 'ssl', 'http.client'} & {*sys.modules}), status)"
    )
    arguments = ("--binary-static", "--binary-known-problems", "known.toml", faulty(tmp_path).name)
    ended = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    last = ended.stdout.splitlines()[-1]
    assert last == "[] 0"
    assert "which was found automatically" not in ended.stdout
