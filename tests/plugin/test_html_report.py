"""The page of a run, and the same page made again from its documents."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.plugin.conftest import IN_A_WORKER, Run, command, faulty, healthy

pytest.importorskip("jinja2")
pytest.importorskip("squarify")


def rewrite(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command(folder, "report", "out.json", "--format", *options)


@pytest.mark.parametrize("workers", [(), IN_A_WORKER])
def test_the_page_is_made_again_from_results_and_facts(
    pytester: pytest.Pytester, run: Run, workers: tuple[str, ...]
) -> None:
    wanted = [
        f"--binary-report={each}" for each in ("html:out.html", "json:out.json", "facts:all/")
    ]
    run(faulty(pytester.path), healthy(pytester.path, name="other"), *wanted, *workers)
    page = (pytester.path / "out.html").read_text("utf-8")
    assert page.count('<svg class="graph"') == 2
    facts = [f"--facts={path}" for path in sorted((pytester.path / "all").iterdir())]
    assert rewrite(pytester.path, "html", *facts).stdout == page
    without = rewrite(pytester.path, "html").stdout
    assert "which has no facts of packages" in without
    assert '<svg class="graph"' not in without


def test_facts_of_another_package_are_refused(pytester: pytest.Pytester, run: Run) -> None:
    one = ("-k", "absolute-search-path", "--binary-report")
    run(healthy(pytester.path), *one, "json:out.json")
    run(healthy(pytester.path, name="other"), *one, "facts:other.json")
    ended = rewrite(pytester.path, "html", "--facts", "other.json")
    assert ended.returncode == 4
    assert ended.stderr == (
        "binary-checks: report: --facts other.json: it describes no package of the "
        "result document\n"
    )
    ended = rewrite(pytester.path, "sarif", "--facts", "other.json")
    assert ended.stderr == "binary-checks: report: --facts: sarif shows no facts\n"
