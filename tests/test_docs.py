"""The documentation as it stands in the repository: links, navigation, and facts that are written twice."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

import fedhpo
from fedhpo.core.version import VERSION

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_site"))
linking = __import__("linking")
pages = __import__("pages")
reference = __import__("reference")
sys.path.pop(0)

OUTSIDE = [ROOT / "README.md", ROOT / "examples/users/README.md", ROOT / "examples/tutorials/README.md"]
PAGES = [*OUTSIDE, *(path for path in pages.sources() if path.suffix == ".md")]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")


def anchors(path: Path) -> set[str]:
    lines = linking.lines_of(path.read_text(encoding="utf-8"))
    return {slug(line.lstrip("#")) for line, is_text in lines if is_text and re.match(r"#+ ", line)}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_link_is_dead(path):
    dead = []
    for target in linking.links_of(path.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        there = (path.parent / name).resolve() if name else path
        if re.match(r"https?:|mailto:", target):
            continue
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            dead.append(target)
    assert not dead


def test_every_page_is_in_the_navigation_once():
    shown = {place.as_posix() for place in pages.sources().values() if place.suffix == ".md"}
    shown |= {f"start/{name}.md" for name in pages.START} | {
        f"tutorials/{name}.md" for name in pages.TUTORIALS
    }
    listed = [page for section in pages.navigation(shown) for named in section.values() for page in named]
    assert sorted(listed) == sorted(shown)


def test_a_page_that_is_not_there_is_left_out_of_the_navigation():
    assert pages.navigation({"concepts.md"}) == [{"User guide": ["concepts.md"]}]


def test_the_notebooks_are_those_that_there_are():
    for folder, names in {"users": pages.START, "tutorials": pages.TUTORIALS}.items():
        assert sorted(names) == sorted(path.stem for path in (ROOT / "examples" / folder).glob("*.ipynb"))


def test_links_are_turned_to_where_things_are_on_the_site():
    def found(path):
        return pages.shown_as(path) or Path("files") / path.relative_to(ROOT)

    text = "See:\n- [a](../../CHANGELOG.md), [b](../concepts.md#a-score)\n\n```\n[c](no.md)\n```\n<details>"
    source = ROOT / "docs" / "methods" / "sha.md"
    assert linking.staged(text, Path("methods/sha.md"), source, found) == (
        "See:\n\n- [a](../changelog.md), [b](../concepts.md#a-score)\n\n```\n[c](no.md)\n```\n"
        '<details markdown="1">\n'
    )


def test_the_reference_has_every_promised_name():
    listed = [name for names in reference.groups(ROOT / "docs").values() for name in names]
    assert sorted(listed) == sorted(fedhpo.__all__)


def test_the_page_of_commands_has_all_of_them():
    page = reference.commands()
    assert {"tune", "ui", "reproduce", "table build"} <= set(
        re.findall(r"^## fedhpo (.*)$", page, re.MULTILINE)
    )


def test_extras_and_versions_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    table = (ROOT / "docs" / "start.md").read_text(encoding="utf-8").partition("| extra | for |")[2]
    cells = re.findall(r"^\| (`[^|]*) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(
        project["optional-dependencies"]
    )
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {VERSION}" in cited.splitlines()
    assert project["dynamic"] == ["version"]  # hatch reads it where the code does
    papers = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert papers["dependencies"][0].endswith(f"=={VERSION}")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert changes.split("## ")[1].startswith(VERSION)
