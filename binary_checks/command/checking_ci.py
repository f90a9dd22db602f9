"""``binary-checks ci check``: whether the files of CI systems are what `ci write` would write."""

from __future__ import annotations

from collections.abc import Sequence

from binary_checks.command.writing_pipelines import make_parser, places_of, render
from binary_checks.errors import PROBLEMS
from binary_checks.lines import one_line
from binary_checks.reports.verdict_texts import count

_PURPOSE = "Report CI files that differ from what `binary-checks ci write` would write."


def run(arguments: Sequence[str]) -> int:
    """Compare them; returns 0 where all are alike, else 1."""
    from binary_checks.fleet.ci.generated_files import find_drift

    options = make_parser("check", _PURPOSE).parse_args(arguments)
    pipeline, rendered, status = render(options)
    files, places = rendered.files, places_of(options.system, rendered.refused)
    drifted = [*find_drift(options.folder, files, source=pipeline.source, places=places)]
    for each in drifted:
        print(one_line(f"{each.path}: {each.fault}"))
        for line in each.lines:
            print(f"  {one_line(line)}")
    if not drifted:
        print(f"{count(len(files), 'file')} up to date with {pipeline.source}")
        return status
    print(
        f"{len(drifted)} of {len(files)} files drifted; next: binary-checks ci write {options.file}"
    )
    return status or PROBLEMS
