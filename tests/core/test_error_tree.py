"""One tree of exceptions: complete, exported, drawn in the docs."""

import importlib
import inspect
import pkgutil
import warnings
from pathlib import Path

import pytest

import fedhpo
import fedhpo as fh
from fedhpo.core.errors import FedhpoError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"


def exceptions_of_ours():
    """All errors that the package defines; what stops a run, and warnings, are none."""
    found = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in pkgutil.walk_packages(fedhpo.__path__, "fedhpo."):
            if module.name.endswith("__main__") or ".vendor" in module.name:
                continue
            try:
                names = vars(importlib.import_module(module.name))
            except ImportError:  # an optional package
                continue
            found |= {
                one
                for one in names.values()
                if inspect.isclass(one)
                and issubclass(one, FedhpoError)
                and one.__module__.split(".")[0] == "fedhpo"
                and not one.__name__.startswith("_")
            }
    return found


def test_every_error_is_in_the_tree():
    ours = exceptions_of_ours()
    assert {one.__name__ for one in ours} == set(fh.errors.__all__)
    assert all(getattr(fh.errors, one.__name__) is one for one in ours)


def test_the_drawing_is_the_tree():
    drawn = {}
    above = []
    for line in fh.errors.__doc__.split("\n\n")[1].splitlines():
        name = line.strip(" │├└─").split(" ")[0]
        if name in (*fh.errors.__all__, "Exception"):
            depth = (len(line) - len(line.lstrip(" │├└─"))) // 4
            above[depth - 1 :] = [name]
            drawn[name] = above[depth - 2] if depth > 1 else None
    del drawn["Exception"]
    assert drawn == {name: getattr(fh.errors, name).__mro__[1].__name__ for name in fh.errors.__all__}


def test_the_page_has_the_same_drawing():
    drawing = fh.errors.__doc__.split("\n\n")[1]
    page = PAGE.read_text(encoding="utf-8")
    assert "\n".join(line.removeprefix("    ") for line in drawing.splitlines()) in page


@pytest.mark.parametrize(
    "old",
    [
        "fedhpo.engine.task:PreflightError",
        "fedhpo.protocol.federation:TrialError",
        "fedhpo.search.events:TuningError",
        "fedhpo.core.run_errors:DamageError",
        "fedhpo.federations.remote.layout:Rejected",
        "fedhpo.federations.remote.replies:TaskFailed",
        "fedhpo.learners.bagging:NotTrees",
        "fedhpo.learners.collective:CollectiveError",
        "fedhpo.workers.processes:WorkersUnavailable",
    ],
)
def test_names_of_earlier_versions_are_the_same_classes(old):
    module, name = old.split(":")
    assert getattr(importlib.import_module(module), name) is getattr(fh.errors, name)


def test_except_clauses_of_earlier_versions_still_catch():
    assert issubclass(fh.errors.NotTrees, ValueError)
    assert issubclass(fh.errors.MissingExtraError, ImportError)
    assert issubclass(fh.errors.TrialError, FedhpoError)
    assert issubclass(fh.errors.PreflightError, ValueError)
