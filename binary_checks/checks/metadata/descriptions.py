"""The description, which an index renders when the wheel is uploaded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from binary_checks.declaring import check
from binary_checks.model import Finding, Level, NotInspected, Problem, WheelLike
from binary_checks.model.published import RenderedDescription

_TYPES = frozenset({"text/plain", "text/x-rst", "text/markdown"})
_VARIANTS = frozenset({"GFM", "CommonMark"})
_PARAMETER = re.compile(r"""\s*([\w-]+)\s*=\s*"?([^"\s]*)"?\s*""")
_LONGEST = 100  # characters of a type in a sentence
_LONGEST_READ = 1000  # characters of one that are read


@check
def description_type_refused(package: WheelLike) -> Iterator[Finding]:
    """The content type of the description is none that PyPI takes.

    It takes ``text/plain``, ``text/x-rst`` and ``text/markdown``, in UTF-8, Markdown as ``GFM`` or
    ``CommonMark``.

    Why: PyPI refuses the upload.
    Fix: set ``readme`` in pyproject.toml to a file that ends in ``.md``, ``.rst`` or ``.txt``.
    Level: nobody gets a release that was not uploaded.
    """
    stated = package.header("Description-Content-Type")[:_LONGEST_READ]
    base, _, rest = stated.partition(";")
    fault = ""
    if stated == "UNKNOWN":
        return  # how setuptools spelled that there is none, until 2017 (numpy 1.13.3)
    if stated and base.strip().lower() not in _TYPES:
        fault = "PyPI takes text/plain, text/x-rst and text/markdown"
    for part in filter(str.strip, rest.split(";")):
        match = _PARAMETER.fullmatch(part)
        key, value = (match[1].lower(), match[2]) if match else ("", "")
        if key == "charset" and value.lower() != "utf-8":
            fault = "PyPI takes UTF-8 alone"
        elif key == "variant" and value not in _VARIANTS:
            fault = "PyPI takes the variants GFM and CommonMark"
    if fault:
        sentence = f"the description's type is {stated[:_LONGEST]!r}: {fault}"
        yield Problem(path=f"{package.dist_info}/METADATA", sentence=sentence)


@check(enabled=False)
def description_not_rendered(
    package: WheelLike, description: RenderedDescription
) -> Iterator[Finding]:
    """The description does not render, or is missing: what ``twine check --strict`` refuses.

    It is rendered by readme-renderer, as on PyPI (``pip install binary-checks[description]``);
    without that library reStructuredText is not inspected. A profile turns the check on.

    Why: PyPI refuses the upload of a description that does not render, and shows none where there
    is none; one without a content type is taken for reStructuredText.
    Fix: run ``twine check --strict dist/*``, and correct the file that ``readme`` in pyproject.toml
    names.
    Level: nobody gets a release that was not uploaded. A missing description, or type, is a
    warning.
    """
    path = f"{package.dist_info}/METADATA"
    if not description.length:
        yield Problem(path=path, sentence="there is no description", level=Level.WARNING)
        return
    if not description.content_type:
        sentence = "the description has no content type: PyPI takes it for reStructuredText"
        yield Problem(path=path, sentence=sentence, level=Level.WARNING)
    if description.renders is None:
        yield NotInspected(path=path, sentence=description.reason)
    elif not description.renders:
        first = description.faults[0] if description.faults else "the renderer does not say why"
        yield Problem(path=path, sentence=f"the description does not render: {first}")
