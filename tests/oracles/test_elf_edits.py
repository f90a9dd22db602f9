"""Every edit of one field of a healthy library that the real loader refuses is red here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fixtures.fuzz.elf_oracle import find_lack
from fixtures.fuzz.mutation import count_singles, pick_single
from fixtures.fuzz.seeds import Seed
from fixtures.fuzz.target_elf import Target, make_seed
from fixtures.samples import read_sample

pytestmark = pytest.mark.slow
SAMPLES = {
    "extension.cpython-311-x86_64-linux-gnu.so": "glibc",
    "glibc_2_28.so": "glibc",
    "sysv_hash.so": "glibc",
    "relr_marked.so": "glibc",
    "text_relocation.so": "glibc",
    "musl.so": "musl",
}


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    target = Target()
    yield target
    target.close()


@pytest.mark.parametrize("name", SAMPLES)
def test_what_the_real_loader_refuses_is_never_green(name: str, target: Target) -> None:
    if lack := find_lack(SAMPLES[name]):
        pytest.skip(lack)
    seed = make_seed(name, read_sample(name))
    edits = dict(_edit_all(seed))
    opinions = target.ask(seed, list(edits.values()), [False] * len(edits))
    refused = [
        (what, content)
        for (what, content), opinion in zip(edits.items(), opinions, strict=True)
        if opinion is not None and not opinion.accepted and not opinion.excuse
    ]
    assert len(refused) > 500
    judge = target.judge_of(seed)
    assert [what for what, content in refused if not judge.judge(content).problems] == []


def _edit_all(seed: Seed) -> Iterator[tuple[str, bytes]]:
    for number in range(count_singles(seed)):
        field, value = pick_single(seed, number)
        start, end = field.offset, field.offset + field.size
        new = value.to_bytes(field.size, field.order)
        yield f"{field.name} {value:#x}", seed.content[:start] + new + seed.content[end:]
