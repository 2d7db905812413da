"""What is promised: the exported names, their homes, their docstrings and the pages agree."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import fedhpo

ROOT = Path(__file__).parents[1]
#: Not the pages of what there was, and of what people type by mistake.
_OTHERS = ("CHANGELOG.md", "words.md")
PAGES = [path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if path.name not in _OTHERS]


def imported_for_type_checkers():
    """The names that `fedhpo/__init__.py` imports where type checkers look, and from which modules."""
    tree = ast.parse(Path(fedhpo.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_all_homes_and_types_name_the_same():
    assert set(fedhpo.__all__) == set(fedhpo._HOME)
    packages = dict.fromkeys(fedhpo._PACKAGES, "fedhpo")
    assert imported_for_type_checkers() == fedhpo._HOME | packages
    assert len(set(fedhpo.__all__)) == len(fedhpo.__all__)
    assert set(fedhpo.__all__) <= set(dir(fedhpo))


@pytest.mark.parametrize("name", fedhpo.__all__)
def test_every_name_can_be_had_and_has_a_docstring(name):
    found = getattr(fedhpo, name)
    said = (found.__doc__ or "").strip()
    generated = f"{name}("  # what a dataclass makes of its fields if nobody writes one
    assert len(said) > 20
    assert not said.startswith(generated)


@pytest.mark.parametrize("name", fedhpo.__all__)
def test_public_methods_of_exported_classes_have_docstrings(name):
    found = getattr(fedhpo, name)
    if inspect.isclass(found):
        own = {key: value for key, value in vars(found).items() if not key.startswith("_")}
        methods = [
            key for key, value in own.items() if inspect.isfunction(value) or isinstance(value, property)
        ]
        assert [key for key in methods if not inspect.getdoc(getattr(found, key))] == []


@pytest.mark.parametrize("name", fedhpo.__all__)
def test_every_name_is_in_the_pages(name):
    as_code = re.compile(rf"`[^`\n]*\b{name}\b[^`\n]*`|\bfh\.{name}\b|\bfedhpo\.{name}\b")
    assert any(as_code.search(page.read_text(encoding="utf-8")) for page in PAGES)


def test_the_page_of_promises_lists_exactly_what_is_exported():
    page = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+)`", page[page.index("## The names") :])
    assert sorted(listed) == sorted(fedhpo.__all__)


def test_what_the_pages_call_by_our_name_is_there():
    for page in PAGES:
        for name in set(re.findall(r"\bfh\.(\w+)", page.read_text(encoding="utf-8"))):
            assert name in fedhpo.__all__ or name in fedhpo._PACKAGES, (page.name, name)


def test_every_link_between_pages_leads_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)
