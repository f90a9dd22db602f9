"""GitLab and CircleCI: labels and variables choose cells, and none is green for want of a job."""

from __future__ import annotations

import pytest

from binary_checks.errors import ProfileError
from binary_checks.fleet.ci import gitlab_pipelines
from tests.fleet.ci.elsewhere_files import load, make, write


def test_labels_choose_the_cells_of_gitlab_in_place_of_its_tier() -> None:
    document = load(write("gitlab", make())[".gitlab/binary-checks.yml"])
    narrowed = (
        "$BINARY_CHECKS_ONLY || $BINARY_CHECKS_ALSO || "
        "$CI_MERGE_REQUEST_LABELS =~ /cells[ -](only|also|tier):/"
    )
    for name, shared in document.items():
        if name.startswith(".binary-checks-on-"):
            assert shared["rules"][0] == {"if": narrowed, "when": "never"}
    for name in ("choose cells", "chosen cells"):
        rules = {each["variables"]["BINARY_CHECKS_TIER"]: each for each in document[name]["rules"]}
        assert [*rules] == ["pr", "merge", "nightly"]
        pull = '$CI_PIPELINE_SOURCE == "merge_request_event"'
        assert rules["pr"]["if"] == f"({pull}) && ({narrowed})"
    (artifact,) = document["chosen cells"]["trigger"]["include"]
    assert [artifact["artifact"]] == document["choose cells"]["artifacts"]["paths"]


def test_a_child_pipeline_of_chosen_cells_of_gitlab_publishes_none_of_a_merge_request() -> None:
    pipeline = make()
    chosen = [pipeline.cells[0].cell, pipeline.cells[-1].cell]
    for tier, stages in (("pr", ["build", "test"]), ("nightly", ["build", "test", "publish"])):
        text = gitlab_pipelines.describe_choice(pipeline, chosen, tier)
        document = load(text)
        jobs = [name for name in document if not name.startswith(".")]
        assert jobs == [f"{stage} {cell.id}" for cell in chosen for stage in stages]
        rules = [rule["if"] for each in document.values() for rule in each.get("rules", ())]
        assert {*rules} == {'$CI_PIPELINE_SOURCE == "parent_pipeline"'}


def test_more_cells_than_a_child_pipeline_may_have_are_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipeline = make()
    monkeypatch.setattr(gitlab_pipelines, "MOST_JOBS", 16)
    with pytest.raises(ProfileError, match=r"10 cells have more than the 16 jobs .* narrow it"):
        gitlab_pipelines.describe_choice(pipeline, [each.cell for each in pipeline.cells], "pr")


def test_a_build_of_gitlab_that_failed_leaves_nothing_to_publish() -> None:
    document = load(write("gitlab", make())[".gitlab/binary-checks.yml"])
    assert document[".binary-checks-build"]["artifacts"]["when"] == "on_success"
    assert document[".binary-checks-test"]["artifacts"]["when"] == "always"


def test_circleci_gives_all_cells_a_job_where_it_is_narrowed() -> None:
    document = load(write("circleci", make())[".circleci/config.yml"])
    asked = {"not": {"equal": ["", "<< pipeline.parameters.only >>"]}}
    assert document["workflows"]["nightly"]["when"]["or"][1] == asked
    for tier in ("pr", "merge"):
        assert asked in document["workflows"][tier]["when"]["and"][0]["not"]["or"]
    assert asked not in document["workflows"]["night"]["when"]["or"]
