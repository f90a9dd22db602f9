"""The plan of a night in its store: of coordinators that plan at the same time one wins."""

from __future__ import annotations

from collections.abc import Mapping

from binary_checks.errors import StoreError
from binary_checks.fleet.plan import NightPlan
from binary_checks.fleet.records import read_plan, write_plan
from binary_checks.fleet.store import Store
from binary_checks.fleet.store.store_names import frozen_name, plan_name


def find_plan(store: Store, night: str) -> NightPlan | None:
    """The plan that the night has; None: it has none yet."""
    name = plan_name(night)
    content = store.read(name)
    if content is None:
        return None
    plan = read_plan(content, f"{store.url}: {name}")
    if plan.night != night:
        raise StoreError(f"{store.url}: {name}: it is the plan of {plan.night}")
    return plan


def keep_plan(store: Store, plan: NightPlan, frozen: Mapping[str, bytes]) -> NightPlan:
    """Keep a plan, unless there is one; returns that which counts.

    What is frozen with it comes first: a plan that is there has all that it names.
    """
    for sha256, content in frozen.items():
        store.create(frozen_name(plan.night, sha256), content)
    store.create(plan_name(plan.night), write_plan(plan))
    return find_plan(store, plan.night) or plan
