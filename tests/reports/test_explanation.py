"""A check's declaration as text."""

from __future__ import annotations

from collections.abc import Iterator

from binary_checks.declaring import FAMILIES, check, find_checks
from binary_checks.model import ElfFile, Level, Linkage, Wheel
from binary_checks.reports.explanation import (
    DOCUMENTATION,
    advice,
    explain,
    find_page,
    read_documentation,
)
from fixtures.documentation import format_family_page, iter_family_rows


@check
def too_heavy(wheel: Wheel, linkage: Linkage, *, limit: int = 3) -> Iterator[str]:
    """A wheel is too heavy.

    Pounds, not kilograms.

    Why: it breaks the scales.
    Fix: eat less.
    Level: the scales cost
        a fortune.
    """
    yield from ()


@check(enabled=False, level=Level.WARNING)
def adrift(library: ElfFile) -> Iterator[str]:
    """A library is adrift.

    Why: it is.
    Fix: tie it.
    """
    yield from ()


def test_an_explanation_says_all_that_is_declared() -> None:
    assert explain(too_heavy).splitlines() == [
        "## too-heavy",
        "",
        "A wheel is too heavy.",
        "",
        "Pounds, not kilograms.",
        "",
        "**Why:** it breaks the scales.",
        "",
        "**Fix:** eat less.",
        "",
        "**Level:** error: the scales cost",
        "a fortune.",
        "",
        "Family `test_explanation`; runs on `Wheel`, with `Linkage`.",
        "",
        "Options, in a profile's table `[options.too-heavy]`:",
        "",
        "- `limit`: `int` = `3`",
    ]


def test_an_explanation_says_the_level_without_a_reason_too_and_what_is_off() -> None:
    lines = explain(adrift).splitlines()
    assert "**Level:** warning." in lines
    assert lines[-1].endswith(
        "runs on `ElfFile`. Off until a profile enables it or sets one of its options."
    )


def test_advice_for_a_terminal_has_no_markup() -> None:
    @check
    def lost(library: ElfFile) -> Iterator[str]:
        """A library is lost.

        Why: ``dlopen`` and
            ``ld.so`` look elsewhere.
        Fix: link with ``-Wl,-rpath,'$ORIGIN/x'`` or run ``patchelf``.
        """
        yield from ()

    assert list(advice(read_documentation(lost))) == [
        "  why: 'dlopen' and 'ld.so' look elsewhere.",
        "  fix: link with -Wl,-rpath,'$ORIGIN/x' or run 'patchelf'.",
    ]
    assert "run `patchelf`." in explain(lost)


def test_a_fact_is_named_once_and_no_fact_is_none() -> None:
    @check
    def doubled(
        library: ElfFile, one: Linkage | Wheel, two: Wheel, three: Linkage | None
    ) -> Iterator[str]:
        """A library is doubled."""
        yield from ()

    assert "runs on `ElfFile`, with `Linkage`, `Wheel`." in explain(doubled)


def test_an_options_type_is_spelled_as_it_was_written() -> None:
    @check
    def choosy(
        wheel: Wheel, *, expected: bool | None = None, names: tuple[str, ...] = ()
    ) -> Iterator[str]:
        """A wheel is choosy."""
        yield from ()

    text = explain(choosy)
    assert "- `expected`: `bool | None` = `None`" in text
    assert "- `names`: `tuple[str, ...]` = `()`" in text


def test_the_page_of_a_family_is_a_table_and_then_each_check_in_order() -> None:
    text = format_family_page("bundling", reversed(find_checks()))
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert [row.rpartition(" | ")[0] for row in rows] == [
        "| [forbidden-bundled-library](#forbidden-bundled-library) | error",
        "| [library-past-end-of-life](#library-past-end-of-life) | warning",
        "| [orphan-library](#orphan-library) | warning",
    ]
    assert text.index("## forbidden-bundled-library") < text.index("## orphan-library")
    assert "\n## missing-library" not in text
    assert text.endswith(".\n")


def test_a_page_is_found_for_what_is_ours_and_for_nothing_else() -> None:
    assert find_page("linkage") == f"{DOCUMENTATION}/checks/linkage.html"
    assert find_page("missing-library") == f"{DOCUMENTATION}/checks/linkage.html#missing-library"
    assert find_page("unreadable-package") == f"{DOCUMENTATION}/checks.html#unreadable-package"
    assert find_page("too-heavy") == find_page("test_explanation") == ""


def test_the_table_of_families_links_to_every_check() -> None:
    rows = [*iter_family_rows(find_checks())]
    assert len(rows) == len(FAMILIES) + 2
    (bundling,) = (row for row in rows if row.startswith("| [bundling](checks/bundling.md) |"))
    assert "[orphan-library](checks/bundling.md#orphan-library) |" in bundling
