"""Markdown as GitHub reads it, made into Markdown as mkdocs reads it: links and lists."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^([-*] |1\. )\S")
AWAY = re.compile(r"^(https?:|mailto:|#)")


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it is text rather than code."""
    fenced = False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
            yield line, False
        else:
            yield line, not fenced


def links_of(text: str) -> list[str]:
    """The targets of all links and pictures."""
    plain = "\n".join(re.sub(r"`[^`]*`", "", line) for line, is_text in lines_of(text) if is_text)
    return [target for _, target in LINK.findall(plain)]


def staged(text: str, place: Path, source: Path, found: Callable[[Path], Path]) -> str:
    """The page as mkdocs wants it.

    `found` says where on the site a file of the repository is. Links are rewritten to that, and a list that
    follows a paragraph at once gets the empty line that mkdocs needs before it. What is folded stays
    Markdown.
    """

    def moved(match: re.Match[str]) -> str:
        name, target = match.groups()
        if AWAY.match(target):
            return match[0]
        path, _, anchor = target.partition("#")
        there = found((source.parent / path).resolve())
        where = Path(os.path.relpath(there, place.parent)).as_posix()
        return f"{name}({where}{'#' if anchor else ''}{anchor})"

    lines: list[str] = []
    for line, is_text in lines_of(text):
        before = lines[-1] if lines else ""
        if is_text and ITEM.match(line) and before.strip() and not before.startswith((" ", "-", "*", "1.")):
            lines.append("")
        if is_text and line == "<details>":
            line = '<details markdown="1">'
        lines.append(line)
    return "".join(_outside_code("\n".join(lines) + "\n", lambda part: LINK.sub(moved, part)))


def _outside_code(text: str, change: Callable[[str], str]) -> Iterator[str]:
    """The text with its parts outside of code changed; a link may go over the end of a line."""
    part = ""
    for line, is_text in lines_of(text):
        if is_text:
            part += line + "\n"
            continue
        yield change(part)
        yield line + "\n"
        part = ""
    yield change(part)
