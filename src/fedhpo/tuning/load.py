"""`load_run`: what a run came to, read from its directory, without its federation or its data."""

from __future__ import annotations

import os
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.run.run import open_read
from fedhpo.tuning.arguments import checked_run
from fedhpo.tuning.model_file import load_model
from fedhpo.tuning.result import Result, Table


def load_run(path: str | os.PathLike[str], *, model: Any = None) -> Result:
    """The result of a finished run: configs, scores, trials, history, and the tuned model.

    Models of `fedhpo.models` and boosted trees (XGBoost) come back as they are. For a torch model of your own
    give `model`: the class or function that builds it, or a module that takes the weights; without it
    `result.model` is None. Estimators of scikit-learn are not kept: call `fedhpo.tune` with the run's
    directory again, which fits the winner anew. Nothing in the directory is run or unpickled.
    """
    directory = checked_run(path)
    if directory is None:
        raise InputError("path must be the directory of a run, not None")
    with open_read(directory) as run:
        facts, rows = run.result(), run.history()
    if facts is None:
        raise InputError(f"run {directory}: has no result yet; finish it with: fedhpo resume {directory}")
    found, predictor = load_model(directory, model)
    return Result(facts, Table(rows), directory, found, None, predictor)
