"""Rendering of a package's description with readme-renderer."""

from __future__ import annotations

import io
import re
from email.parser import HeaderParser

from binary_checks.declaring import gathers
from binary_checks.errors import Unavailable
from binary_checks.gather.member_contents import LARGEST, MemberContents
from binary_checks.model import ContentRequest, Distribution, RenderedDescription, TreeEntry

_MOST_FAULTS = 10
_LONGEST = 300  # characters of a message
_WHERE = re.compile(r"^<string>:(\d*): \((\w+)/\d\) ", re.MULTILINE)


def _is_metadata(entry: TreeEntry) -> bool:
    return entry.name.endswith(".dist-info/METADATA")


DESCRIPTION = ContentRequest(chooses=_is_metadata, longest=LARGEST)


@gathers(RenderedDescription, wants=(DESCRIPTION,))
def render_description(package: Distribution, contents: MemberContents) -> RenderedDescription:
    """Render the description as PyPI does. Raises PackageError or Unavailable."""
    text, kind = _read(package, contents), package.header("Description-Content-Type")
    kind = "" if kind == "UNKNOWN" else kind
    base = kind.partition(";")[0].strip().lower()
    if base in {"text/plain", "text/markdown"} or not text:
        # PyPI shows descriptions of these types as plain text, so rendering cannot fail.
        return RenderedDescription(content_type=kind, length=len(text), renders=True)
    try:
        renders, faults = _render(text)
    except ImportError as error:
        reason = f"readme-renderer is not installed ({error}): install binary-checks[description]"
        return RenderedDescription(content_type=kind, length=len(text), reason=reason)
    except RecursionError:
        raise Unavailable("the description is nested too deeply to be rendered") from None
    return RenderedDescription(content_type=kind, length=len(text), renders=renders, faults=faults)


def _read(package: Distribution, contents: MemberContents) -> str:
    """Return the body of METADATA, or the Description header of older metadata."""
    name = f"{package.dist_info}/METADATA"
    found = [each for each in package.members if each.archive_name == name]
    if not found:
        raise Unavailable("METADATA cannot be read")
    try:
        content = contents.read(found[-1])
    except Unavailable as error:
        raise Unavailable(f"METADATA: {error}") from None
    message = HeaderParser().parsestr(content.decode("utf-8-sig", "replace"))
    text = str(message.get_payload() or message.get("Description") or "").strip()
    return "" if text == "UNKNOWN" else text


def _render(text: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether the text renders, and its faults. Raises ImportError without the library."""
    from readme_renderer import rst  # few runs need it

    messages = io.StringIO()
    rendered = rst.render(text, stream=messages)
    spelled = _WHERE.sub(r"line \1: \2: ", messages.getvalue()).splitlines()
    faults = [line[:_LONGEST] for line in spelled if line.startswith("line ")]
    return rendered is not None, tuple(faults[:_MOST_FAULTS])
