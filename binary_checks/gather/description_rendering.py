"""Rendering of a package's description with readme-renderer, in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

from binary_checks.declaring import gathers
from binary_checks.errors import GatherError, Unavailable
from binary_checks.gather.member_contents import LARGEST, MemberContents
from binary_checks.model import ContentRequest, Distribution, RenderedDescription, TreeEntry

_PATIENCE = 60  # seconds
_CHILD = Path(__file__).with_name("readme_child.py")


def _is_metadata(entry: TreeEntry) -> bool:
    return entry.name.endswith(".dist-info/METADATA")


DESCRIPTION = ContentRequest(chooses=_is_metadata, longest=LARGEST)


@gathers(RenderedDescription, wants=(DESCRIPTION,))
def render_description(package: Distribution, contents: MemberContents) -> RenderedDescription:
    """Render the description as PyPI does. Raises PackageError, Unavailable or GatherError."""
    text, kind = _read(package, contents), package.header("Description-Content-Type")
    kind = "" if kind == "UNKNOWN" else kind
    base = kind.partition(";")[0].strip().lower()
    if base in {"text/plain", "text/markdown"} or not text:
        # PyPI shows descriptions of these types as plain text, so rendering cannot fail.
        return RenderedDescription(content_type=kind, length=len(text), renders=True)
    answer = _ask(text)
    if "absent" in answer:
        reason = f"readme-renderer is {answer['absent']}: install binary-checks[description]"
        return RenderedDescription(content_type=kind, length=len(text), reason=reason)
    return RenderedDescription(
        content_type=kind,
        length=len(text),
        renders=bool(answer["renders"]),
        faults=tuple(map(str, answer["faults"])),
    )


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


def _ask(text: str) -> dict[str, Any]:
    command = [sys.executable, "-I", str(_CHILD), json.dumps(sys.path)]
    try:
        ended = subprocess.run(
            command, input=text.encode(), capture_output=True, timeout=_PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"rendering it takes longer than {_PATIENCE} s") from None
    except OSError as error:
        raise GatherError(f"readme-renderer cannot be started: {error.strerror}") from None
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        raise Unavailable("the process that renders it failed") from None
    return dict(answer)
