"""docs/matrix.md: its content, harmless for any names, and valid for Mermaid."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest

from binary_checks.fleet.cells import parse_cells
from binary_checks.fleet.ci.generated_files import write_files
from binary_checks.fleet.ci.pipeline import make_pipeline

TORCH = """
[sources.nightly]
index = "https://example.org/{variant}"
[[cells]]
project = "torch"
system = ["linux-x86_64", "macos-arm64"]
python = ["3.12", "3.13t"]
variant = ["cpu", "cu126"]
source = "nightly"
[[leave_out]]
when = "system=macos variant=cu*"
reason = "there is no CUDA on macOS"
expires = 2027-01-31
[[gpu]]
when = "variant=cu*"
"""
NODE = re.compile(r'  [pgu]\d+(?:\(\[|\[\(|\[|\{\{)"[A-Za-z0-9 ,._+<>-]+"(?:\]\)|\)\]|\]|\}\})')
EDGE = re.compile(r"  ([pgu]\d+) --> ([gu]\d+)")


def describe(text: str) -> str:
    content = f'{text}\n[ci]\nsystems = ["docs"]\n'.encode()
    matrix = parse_cells(content, Path("cells.toml"), date(2026, 11, 20))
    return write_files(make_pipeline(matrix, Path()))[0]["docs/matrix.md"]


def diagram(page: str) -> list[str]:
    found = re.search(r"\n```mermaid\n(.*?)\n```\n", page, re.DOTALL)
    assert found is not None
    return found[1].split("\n")


def multiply(projects: int, systems: int, pythons: int, variants: int) -> str:
    names = [f"project{number}" for number in range(projects)]
    found = [f"manylinux_2_{number}-x86_64" for number in range(10, 10 + systems)]
    return "[[cells]]\n" + "\n".join(
        f"{axis} = {json.dumps(values)}"
        for axis, values in {
            "project": names,
            "system": found,
            "python": [f"3.{number}" for number in range(10, 10 + pythons)],
            "variant": [f"cu{number}" for number in range(variants)],
        }.items()
    )


def test_a_project_is_a_table_with_a_row_for_cells_that_differ_in_one_axis() -> None:
    page = describe(TORCH)
    first, rest = page.split("\n", 1)
    assert re.fullmatch("<!-- Generated from cells.toml by .* -->", first)
    assert rest.startswith("# The matrix\n\n6 cells of 1 project, 2 with a GPU stage (+).\n")
    table = page[page.index("## torch") : page.index("## Left out")]
    assert table.splitlines() == [
        "## torch",
        "",
        "6 cells.",
        "",
        "| system | variant | source | python |",
        "|---|---|---|---|",
        "| linux-x86_64 | cpu | nightly | 3.12 3.13t |",
        "| linux-x86_64 | cu126 | nightly | 3.12+ 3.13t+ |",
        "| macos-arm64 | cpu | nightly | 3.12 3.13t |",
        "",
    ]


def test_it_says_what_is_left_out_until_when_and_why() -> None:
    assert describe(TORCH).splitlines()[-1] == (
        "| system=macos variant=cu&#42; | 2 | 2027-01-31 | there is no CUDA on macOS |"
    )
    assert "Left out" not in describe('[[cells]]\nproject = "x"\n')


def test_the_diagram_leads_from_projects_to_the_gpu_stage() -> None:
    usual = "<br>source nightly"
    assert diagram(describe(TORCH)) == [
        "flowchart LR",
        '  p0(["torch<br>6 cells"])',
        f'  g0["2 cells<br>system linux-x86_64<br>python 3.12, 3.13t<br>variant cpu{usual}"]',
        "  p0 --> g0",
        f'  g1["2 cells<br>system linux-x86_64<br>python 3.12, 3.13t<br>variant cu126{usual}"]',
        "  p0 --> g1",
        '  u1{{"GPU<br>2 cells"}}',
        "  g1 --> u1",
        f'  g2["2 cells<br>system macos-arm64<br>python 3.12, 3.13t<br>variant cpu{usual}"]',
        "  p0 --> g2",
    ]


@pytest.mark.parametrize(
    "reason", ["a | b", "<script>x</script>", "[x](javascript:x)", "`a` *b*", "a\\n```\\n# b"]
)
def test_a_reason_is_text_and_nothing_else(reason: str) -> None:
    page = describe(TORCH.replace("there is no CUDA on macOS", reason))
    row = page.splitlines()[-1]  # it begins no line of its own
    assert row.startswith("| system=macos variant=cu&#42; | 2 | 2027-01-31 | ")
    assert row.count("|") == 5
    assert not set("<>`[]*\\") & set(row)
    assert html.unescape(row).endswith(f" | {reason} |")


@pytest.mark.parametrize(
    ("sizes", "boxes"),
    [((1, 1, 1, 1), 1), ((2, 5, 8, 5), 10), ((20, 2, 5, 1), 20)],
)
def test_the_diagram_stays_readable_for_hundreds_of_cells(
    sizes: tuple[int, int, int, int], boxes: int
) -> None:
    lines = diagram(describe(multiply(*sizes)))
    nodes = [line for line in lines[1:] if NODE.fullmatch(line)]
    edges = [found for line in lines if (found := EDGE.fullmatch(line))]
    assert len(nodes) + len(edges) == len(lines) - 1
    assert sum(line.startswith("  g") for line in nodes) == boxes
    names = {re.split(r"[\[({]", line.strip())[0] for line in nodes}
    assert {name for edge in edges for name in edge.groups()} == names


def test_too_many_projects_have_no_diagram_and_a_box_names_a_few_values_of_an_axis() -> None:
    page = describe(multiply(40, 2, 5, 1))
    assert "mermaid" not in page
    assert page.count("\n## project") == 40
    lines = diagram(describe(multiply(1, 1, 12, 40)))
    assert lines[2].endswith('<br>variant cu0, cu1, cu2, cu3, cu4, cu5 and 34 more"]')


ASK_MERMAID = """
import { JSDOM } from "jsdom";
import { readFileSync } from "node:fs";
const { window } = new JSDOM("<!doctype html><body></body>");
Object.assign(globalThis, { window, document: window.document });
const { default: mermaid } = await import("mermaid");
for (const text of JSON.parse(readFileSync(0, "utf8"))) {
  console.log(await mermaid.parse(text).then((found) => found.diagramType, () => "refused"));
}
"""


@pytest.mark.slow
@pytest.mark.network
def test_mermaid_itself_reads_the_diagrams(tmp_path: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("needs node and npm")
    subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "mermaid@11", "jsdom@26"],
        cwd=tmp_path,
        check=True,
        timeout=300,
        capture_output=True,
    )
    (tmp_path / "ask.mjs").write_text(ASK_MERMAID, encoding="utf-8")
    words = '["end", "graph", "click", "__init__", "1.x", "o--x", "default"]\npackage = "torch"'
    hostile = TORCH.replace('"torch"', words)
    texts = [TORCH, hostile, multiply(2, 5, 8, 5), multiply(20, 2, 5, 1)]
    asked = ["\n".join(diagram(describe(text))) for text in texts]
    ended = subprocess.run(
        [node, "ask.mjs"],
        cwd=tmp_path,
        input=json.dumps([*asked, "flowchart LR\n  a[x --> b"]),
        text=True,
        check=True,
        timeout=60,
        capture_output=True,
    )
    assert ended.stdout.split() == ["flowchart-v2"] * 4 + ["refused"]
