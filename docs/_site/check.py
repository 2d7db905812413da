"""Look at the built site: dead links, and whatever a page would load from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


@dataclass
class Page(HTMLParser):
    """The links and anchors of a page, and what it loads."""

    path: Path
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element names."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a" and "name" in given:
            self.anchors.add(given["name"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in {"canonical", "next", "prev"} and "href" in given:
            self.loads.append(given["href"])
        elif tag in {"script", "img", "iframe", "source", "video", "audio"} and "src" in given:
            self.loads.append(given["src"])


def problems(site: Path) -> tuple[list[str], dict[str, int]]:
    """What is wrong with the site, one line each; and how much was looked at."""
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    wrong, counts = [], {"pages": len(pages), "links": 0, "loads": 0}
    for path, page in sorted(pages.items()):
        where = path.relative_to(site.resolve()).as_posix()
        if where == "404.html":  # its links begin at the root of a server
            continue
        for link in page.links:
            counts["links"] += 1
            if (why := _dead(link, path, pages, site.resolve())) is not None:
                wrong.append(f"{where}: {link}: {why}")
        for load in page.loads:
            counts["loads"] += 1
            if urlsplit(load).netloc or (
                not load.startswith("data:") and _dead(load, path, pages, site.resolve())
            ):
                wrong.append(f"{where}: loads {load}")
    for sheet in site.rglob("*.css"):
        for url in re.findall(r"url\(\s*[\"']?(https?:)?//[^)]*", sheet.read_text(encoding="utf-8")):
            wrong.append(f"{sheet.relative_to(site)}: loads {url}")
    return wrong, counts


def _dead(link: str, path: Path, pages: dict[Path, Page], site: Path) -> str | None:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if there.is_dir():
        there = there / "index.html"
    if not there.exists() or not there.is_relative_to(site):
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and anchor != "__top" and there in pages and anchor not in pages[there].anchors:
        return "no such anchor"
    return None
