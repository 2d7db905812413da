"""`load_run`: what a run came to, read from its directory, without its federation or its data."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.run.run import open_read
from fedhpo.tuning.arguments import checked_run
from fedhpo.tuning.model_file import kept_facts, load_model
from fedhpo.tuning.result import Result, Table

#: Why a model did not come back, and what to do.
_OWN = (
    "result.model is None: the run's model is your own; give what builds it, a class, a function or a module "
    "that takes the weights: load_run({path!r}, model=Net)"
)
_NOT_KEPT = (
    "result.model is None: this run keeps no model that can be read back safely; where it trained one, call "
    "fedhpo.tune with run={path!r} and the same arguments again, which brings it back"
)


def load_run(path: str | os.PathLike[str], *, model: Any = None, trust: Sequence[str] = ()) -> Result:
    """The result of a finished run: configs, scores, trials, history, and the tuned model.

    Models of `fedhpo.models`, boosted trees (XGBoost) and estimators of scikit-learn come back as they are.
    For a torch model of your own give `model`: the class or function that builds it, or a module that takes
    the weights; without it `result.model` is None, and a warning says so. Estimators are built of types that
    are trusted: those of scikit-learn, and those that `trust` names ("my_steps.Clip"). Where a model is not
    kept, call `fedhpo.tune` with the run's directory again, which fits the winner anew. Nothing in the
    directory is run or unpickled.
    """
    result = read_run(path, model=model, trust=trust)
    if result.model is None and result.run is not None and result.facts.get("best") is not None:
        told = _NOT_KEPT if kept_facts(result.run) is None else _OWN
        warnings.warn(told.format(path=str(path)), stacklevel=2)
    return result


def read_run(path: str | os.PathLike[str], *, model: Any = None, trust: Sequence[str] = ()) -> Result:
    """The same, without a word where there is no model: for those who need none."""
    directory = checked_run(path)
    if directory is None:
        raise InputError("path must be the directory of a run, not None")
    with open_read(directory) as run:
        facts, rows = run.result(), run.history()
    if facts is None:
        raise InputError(f"run {directory}: has no result yet; finish it with: fedhpo resume {directory}")
    found, predictor = load_model(directory, model, trust)
    return Result(facts, Table(rows), directory, found, None, predictor)
