"""The process that renders a description: reStructuredText in, JSON out.

Docutils is slow for some texts, and uses much memory for others: both are limited here.
"""

from __future__ import annotations

import io
import json
import re
import sys

_MEMORY = 2 << 30  # bytes
_SECONDS = 50  # seconds of processor time
_MOST_FAULTS = 10
_LONGEST = 300  # characters of a message
_WHERE = re.compile(r"^<string>:(\d*): \((\w+)/\d\) ", re.MULTILINE)


def main() -> None:
    """Render the description and print the answer, even if the library is missing."""
    sys.path[:] = json.loads(sys.argv[1])
    try:
        from readme_renderer import rst
    except ImportError as error:
        sys.stdout.write(json.dumps({"absent": f"not installed ({error})"}))
        return
    _limit()
    stream = io.StringIO()
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    rendered = rst.render(text, stream=stream)
    answer = {"renders": rendered is not None, "faults": _list_faults(stream.getvalue())}
    sys.stdout.write(json.dumps(answer))


def _limit() -> None:
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))


def _list_faults(messages: str) -> list[str]:
    spelled = _WHERE.sub(r"line \1: \2: ", messages)
    return [line[:_LONGEST] for line in spelled.splitlines() if line.startswith("line ")][
        :_MOST_FAULTS
    ]


if __name__ == "__main__":
    main()
