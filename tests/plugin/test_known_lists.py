"""Published lists of known problems in a run: where they hold, and how a run ends without them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.package_index import PackageIndex
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
    url = publish(index, LIST)
    ended = judge(run, faulty(tmp_path), "--binary-known-problems", f"{url}?token=s3cret")
    assert ended.ret == 0
    assert "s3cret" not in ended.stdout.str()
    assert result(tmp_path)["known_lists"] == [
        {
            "source": url,
            "sha256": hashlib.sha256(LIST.encode()).hexdigest(),
            "issued": "2026-11-01",
            "valid_until": "2126-11-30",
        }
    ]


def test_workers_judge_by_the_list_that_was_fetched_once(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    url = publish(index, LIST)
    index.conduct["/known.toml"].changes = True  # else a second question would cost nothing
    ended = judge(run, faulty(tmp_path), "--binary-known", url, "-n", "2", "--dist", "load")
    assert ended.ret == 0
    assert index.asked == ["/known.toml"]


@pytest.mark.parametrize("text", [ENDED, "<html>log in</html>"])
def test_without_its_list_a_package_that_fails_is_to_be_tried_again(
    run: Run, index: PackageIndex, tmp_path: Path, text: str
) -> None:
    url = publish(index, text)
    ended = judge(run, faulty(tmp_path), "--binary-known-problems", url)
    assert ended.ret == TRY_AGAIN
    (complaint,) = result(tmp_path)["complaints"]
    assert complaint.startswith(f"known list unavailable: {url}: ")
    ended.stdout.fnmatch_lines([complaint.replace("[", "[[]")])
    assert result(tmp_path)["known_lists"][0]["complaint"]


def test_without_its_list_a_package_that_passes_passes_and_the_run_says_so(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    index.conduct["/known.toml"].failures = [500] * 9
    url = f"{index.url}/known.toml"
    ended = judge(run, healthy(tmp_path), "--binary-known-problems", url)
    assert ended.ret == 0
    assert f"known list unavailable: {url}: answers 500" in ended.stdout.str()
    assert result(tmp_path)["remarks"][-1].startswith("known list unavailable: ")


def test_what_no_entry_can_accept_fails_without_the_list_too(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    url = publish(index, ENDED)
    broken = tmp_path / "demo-1.0-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    assert run(broken, "--binary-known-problems", url).ret == 1


def test_the_copy_that_stands_in_is_said(run: Run, index: PackageIndex, tmp_path: Path) -> None:
    url, wheel = publish(index, LIST), faulty(tmp_path)
    assert judge(run, wheel, "--binary-known-problems", url).ret == 0
    index.conduct["/known.toml"].failures = [500] * 9
    ended = judge(run, wheel, "--binary-known-problems", url)
    assert ended.ret == 0
    ended.stdout.fnmatch_lines([f"known problems {url}: answers 500*; the copy of * holds, *"])
    (held,) = result(tmp_path)["known_lists"]
    assert held["cached"] is True
    assert held["remark"].startswith("answers 500")


def test_other_bytes_than_pinned_are_a_usage_error(
    run: Run, index: PackageIndex, tmp_path: Path
) -> None:
    url = publish(index, LIST)
    ended = run(faulty(tmp_path), "--binary-known-problems", f"{url}#sha256={'0' * 64}")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    found = hashlib.sha256(LIST.encode()).hexdigest()
    ended.stderr.fnmatch_lines([f"*its SHA-256 is {found}, and not {'0' * 64} as asked for"])


@pytest.mark.parametrize(
    ("cell", "code"), [(("--binary-cell", "python=3.13 variant=cu126"), 0), ((), 1)]
)
def test_an_entry_for_some_cells_holds_where_the_run_is_one_of_them(
    run: Run, tmp_path: Path, cell: tuple[str, ...], code: int
) -> None:
    (tmp_path / "known.toml").write_text(f'{ENTRY}cells = "variant=cu* python=3.1?"\n')
    ended = run(faulty(tmp_path), "--binary-known", str(tmp_path / "known.toml"), *cell)
    assert ended.ret == code
    said = "1 known problem holds in some cells alone, and not here: --binary-cell says which"
    assert (said in ended.stdout.str()) == (not cell)


def test_what_matches_nothing_in_one_run_of_a_published_list_is_no_problem(
    run: Run, tmp_path: Path
) -> None:
    known, wheel = tmp_path / "known.toml", healthy(tmp_path)
    known.write_text(LIST)
    assert run(wheel, "--binary-known-problems", str(known)).ret == 0


def test_a_list_holds_at_the_time_that_is_given(run: Run, tmp_path: Path) -> None:
    known, wheel = tmp_path / "known.toml", faulty(tmp_path)
    known.write_text(f"{ENDED}expires = 2026-10-31\n")
    given = ("--binary-known-problems", str(known), "--binary-known-at")
    assert run(wheel, *given, "2026-10-31T23:00:00Z").ret == 0
    assert run(wheel, *given, "2026-11-02T00:00:00Z").ret == TRY_AGAIN


def test_a_cell_or_a_time_that_is_none_is_one_line(run: Run, tmp_path: Path) -> None:
    ended = run(healthy(tmp_path), "--binary-cell", "pythn=3.13")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert "--binary-cell: unknown axis 'pythn'; did you mean 'python'?" in ended.stderr.str()
    ended = run(healthy(tmp_path), "--binary-known-at", "2026-11-01")
    assert ended.ret == pytest.ExitCode.USAGE_ERROR
    assert "2026-11-01: not a time, as 2026-11-22T04:00:00Z is" in ended.stderr.str()


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
    assert "which was found and not named" not in ended.stdout
