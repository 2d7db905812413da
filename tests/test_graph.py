"""The graph of packages: small trees counted by hand, and our own, which must have no cycle."""

import importlib.util
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def graph():
    spec = importlib.util.spec_from_file_location("graph_of_packages", ROOT / "benchmarks" / "graph.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path):
    """Writes modules of a package `house`, given as their paths and texts."""

    def write(**modules):
        for name, text in {"__init__": "", **modules}.items():
            file = tmp_path / "house" / f"{name.replace('__to__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "house"

    return write


def test_edges_are_between_packages_and_counted_once(graph, tree):
    found = graph.read(
        tree(
            core="import os",
            a__to__one="from house.core import x, y\nfrom house import core\nimport house.a.two",
            a__to__two="import house.core as c",
        )
    )
    assert found.nodes == ("a", "core", "house")
    assert found.edges == (("a", "core"),)
    assert (found.cycles, found.private) == ([], ())


def test_imports_inside_functions_make_cycles_and_those_for_type_checkers_do_not(graph, tree):
    lazy = "def f():\n    from house.b import one\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.b import one\n"
    other = "from house.a import one\n"
    assert graph.read(tree(a__to__one=lazy, b__to__one=other)).cycles == [["a", "b"]]
    assert graph.read(tree(a__to__one=typed, b__to__one=other)).cycles == []


def test_a_way_round_through_three_packages_is_one_cycle(graph, tree):
    modules = {"a": "import house.b", "b": "import house.c", "c": "import house.a", "d": "import house.a"}
    assert graph.read(tree(**modules)).cycles == [["a", "b", "c"]]


def test_relative_imports_are_followed(graph, tree):
    found = graph.read(tree(a__to__one="from ..b import x", b="x = 1"))
    assert found.edges == (("a", "b"),)


def test_private_names_and_modules_of_another_package_are_found_own_ones_are_not(graph, tree):
    found = graph.read(
        tree(
            a__to___inner="x = 1",
            a__to__one="from house.a._inner import x",
            b="from house.a._inner import x\nfrom house.a.one import _y",
        )
    )
    assert found.private == (("house.b", "house.a._inner.x"), ("house.b", "house.a.one._y"))


def test_the_exit_code_says_whether_there_is_a_cycle(graph, tree, capsys):
    assert graph.main([str(tree(a="import house.b", b=""))]) == 0
    assert graph.main([str(tree(a="import house.b", b="import house.a"))]) == 1
    assert "1 cycles\n  2: a b\n" in capsys.readouterr().out


def test_our_own_packages_have_no_cycle_and_no_private_name_across_a_border(graph):
    found = graph.read(ROOT / "src" / "fedhpo")
    assert len(found.edges) > 100
    assert (found.cycles, found.private) == ([], ())


def test_our_own_packages_import_only_from_the_layers_below(graph):
    """The same contract as import-linter's, which `make lint` runs, by other means."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rank = {name: i for i, layer in enumerate(contract["layers"]) for name in layer.split(" | ")}
    found = graph.read(ROOT / "src" / "fedhpo")
    assert set(found.nodes) == {"fedhpo", *rank}
    inner = [edge for edge in found.edges if edge[0] != "fedhpo"]
    assert [edge for edge in inner if rank.get(edge[1], -1) <= rank[edge[0]]] == []
