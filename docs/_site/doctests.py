"""Doctests in docstrings become blocks of code: without this they would be read as text."""

from __future__ import annotations

from typing import Any

import griffe


class Doctests(griffe.Extension):
    """Puts a fence around every doctest that stands outside of a section of examples."""

    def on_object(self, *, obj: griffe.Object, **given: Any) -> None:
        """Change the docstring of an object that was read."""
        if obj.docstring is not None and "\nExamples\n--------\n" not in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """A docstring whose doctests stand in fences: from `>>>` to the next empty line.

    >>> print(fenced("Adds.\\n\\n>>> 1 + 1\\n2"))
    Adds.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    lines: list[str] = []
    inside = False
    for line in text.split("\n"):
        if not inside and line.startswith(">>> "):
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)
