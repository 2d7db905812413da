"""A page in Markdown as sections of HTML: paragraphs, lists, and tables that are folded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedhpo.pages.html import Section, text


def folded(page: str, after: str) -> str:
    """The same page with every table after this section inside a `<details>`.

    >>> print(folded("## A\\n\\n| y |\\n\\n## B\\n\\n| x |\\n| --- |\\n| 1 |", "## A"))
    ## A
    <BLANKLINE>
    | y |
    <BLANKLINE>
    ## B
    <BLANKLINE>
    <details>
    <summary>Table, 1 row</summary>
    <BLANKLINE>
    | x |
    | --- |
    | 1 |
    <BLANKLINE>
    </details>
    """
    place = page.find("\n## ", page.find(after) + 1) if after in page else -1
    if place < 0:
        return page
    head, rest = page[: place + 1], page[place + 1 :]
    blocks = [_fold(block) if block.startswith("|") else block for block in rest.split("\n\n")]
    return head + "\n\n".join(blocks)


def _fold(block: str) -> str:
    end = "\n" if block.endswith("\n") else ""
    return f"<details>\n<summary>{_counted(block)}</summary>\n\n{block.rstrip()}\n\n</details>{end}"


def _counted(block: str) -> str:
    rows = len(block.strip().splitlines()) - 2
    return f"Table, {rows} row{'s' * (rows != 1)}"


def sections(page: str, after: str) -> list[Section]:
    """What follows a heading, a section for each further one."""
    rest = page.partition(after)[2]
    parts = re.split(r"^## (.*)$", rest, flags=re.MULTILINE)
    titled = zip(parts[1::2], parts[2::2], strict=True)
    return [
        Section(title, "\n".join(_block(b) for b in body.strip().split("\n\n"))) for title, body in titled
    ]


def paragraph(words: str) -> str:
    """A paragraph, with code and bold words.

    >>> paragraph("**a** `b<c`")
    '<p><strong>a</strong> <code>b&lt;c</code></p>'
    """
    return f"<p>{_inline(words)}</p>"


def _inline(words: str) -> str:
    marked = re.sub(r"`([^`]*)`", r"<code>\1</code>", text(words))
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", marked)


def _block(block: str) -> str:
    if block.startswith("|"):
        return f"<details><summary>{_counted(block)}</summary>{_table(block.splitlines())}</details>"
    if block.startswith("- "):
        items = "".join(f"<li>{_inline(line[2:])}</li>" for line in block.splitlines())
        return f"<ul>{items}</ul>"
    return paragraph(block)


def _table(lines: Sequence[str]) -> str:
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in lines)
    top = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=scroll><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
