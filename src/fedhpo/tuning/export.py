"""A result in other tools' forms: its trials as CSV, Parquet or a study of Optuna; its best config for Flower
and NVFlare."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TextIO

from fedhpo.core.errors import InputError, MissingExtraError, unknown_name
from fedhpo.space import Choice, Float, Int, Ordinal, Space
from fedhpo.tuning.result import Result


def export(result: Result, to: str, target: str, name: str = "fedhpo") -> int:
    """Write the trials to `target`, a file or Optuna's storage; how many were written."""
    if to not in TRIALS:
        raise unknown_name("export", to, TRIALS)
    exported(result, to, target, name)
    return len(result.trials)


def exported(result: Result, to: str, target: str | PathLike[str] | None = None, name: str = "") -> Any:
    """The result in another form, which is written to `target` if there is one."""
    if to not in _KINDS:
        raise unknown_name("export", to, _KINDS)
    name = name or ("fedhpo" if result.run is None else Path(result.run).resolve().name)
    if to == "optuna":
        return _optuna(result, None if target is None else fspath(target), name)
    made: str | bytes = _KINDS[to](result)
    if target is not None:
        path = _new(fspath(target))
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
    return made


def _json(result: Result) -> str:
    return json.dumps(result.best_config.to_dict(), indent=2)


def _flower(result: Result) -> str:
    """A part of pyproject.toml."""
    lines = ["[tool.flwr.app.config]", f"num-server-rounds = {result.best_rounds}"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in result.best_config.flat().items()]
    return "\n".join(lines) + "\n"


def _nvflare(result: Result) -> str:
    """Arguments of a recipe such as `FedAvgRecipe`: its script takes client hyperparameters as options."""
    config = result.best_config
    arguments = shlex.join(f"--{name}={_plain(value)}" for name, value in config.client.items())
    found = {"num_rounds": result.best_rounds, "train_args": arguments, "server": dict(config.server)}
    return json.dumps(found | ({"model": dict(config.model)} if config.model else {}), indent=2) + "\n"


def _csv(result: Result) -> str:
    table, text = result.trials, io.StringIO()
    write_csv(text, [table.columns, *([row.get(name) for name in table.columns] for row in table)])
    return text.getvalue()


def write_csv(file: TextIO, rows: Iterable[Iterable[Any]]) -> None:
    """Write rows in which no text is a formula to a spreadsheet.

    A text that begins with =, +, -, @, a tab or a carriage return gets an apostrophe before it, as
    spreadsheets write it themselves. Numbers stay numbers, also where they are texts.

    >>> import sys
    >>> write_csv(sys.stdout, [["=1+2", "-x", "-1", -1.5, "a=b", None]])
    '=1+2,'-x,-1,-1.5,a=b,
    """
    for row in rows:
        line = io.StringIO()
        # The writer puts quotes around characters of its line's end: around a carriage return only so.
        csv.writer(line, lineterminator="\r\n").writerow(
            [f"'{cell}" if _is_formula(cell) else cell for cell in row]
        )
        file.write(line.getvalue()[:-2] + "\n")


def _is_formula(cell: Any) -> bool:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return False
    return re.fullmatch(r"[+-](\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cell, re.ASCII) is None


def _parquet(result: Result) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    rows = [{key: row.get(key) for key in result.trials.columns} for row in result.trials]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def _new(target: str) -> Path:
    path = Path(target)
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{target}: must be a file in a directory that is there")
    return path


def _optuna(result: Result, target: str | None, name: str) -> Any:
    """A study of that name; every evaluation is an intermediate value at its round."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("optuna", "optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    objectives = result.facts.get("objectives") or [result.facts["objective"]]
    directions = [one["direction"] for one in objectives]
    try:
        study = optuna.create_study(storage=target, study_name=name, directions=directions)
    except optuna.exceptions.DuplicatedStudyError:
        raise InputError(
            f"{target} holds a study {name!r} already: take another file, or delete it"
        ) from None
    # Else Optuna's dashboard calls them Objective 0, Objective 1.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study.set_metric_names([str(one.get("name", one.get("metric"))) for one in objectives])
    distributions = _distributions(Space.from_dict(result.facts["space"]), optuna.distributions)
    # Optuna knows neither intermediate values nor pruning where there are several objectives.
    points = _points(result) if len(directions) == 1 else {}
    states = optuna.trial.TrialState
    for row, trial in zip(result.trials, result.facts["trials"], strict=True):
        known = {key: one for key, one in distributions.items() if row.get(key) is not None}
        values = list(trial.get("objectives", {"score": row["score"]}).values())
        scored = len(values) == len(directions) and all(v is not None and math.isfinite(v) for v in values)
        ended = states.PRUNED if row["status"] == "eliminated" else states.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(
                state=ended if scored else states.FAIL,
                values=values if scored else None,
                params={key: _plain(row[key]) for key in known},
                distributions=known,
                intermediate_values=points.get(row["trial"], {}),
                user_attrs={"trial": row["trial"], "status": row["status"], "rounds": row["rounds"]},
            )
        )
    return study


def _points(result: Result) -> dict[int, dict[int, float]]:
    """Scores by trial and round."""
    from fedhpo.figures.view import RunView

    view = RunView.of_result(result.facts, result.history)
    return {trial: dict(curve) for trial, curve in view.evaluated.items()}


def _distributions(space: Space, kinds: Any) -> dict[str, Any]:
    return {name: _distribution(one, kinds) for name, one in space.hyperparameters.items()}


def _distribution(one: Any, kinds: Any) -> Any:
    """Optuna's for a hyperparameter; listed values are a choice, as Optuna knows no order among them."""
    if isinstance(one, Float):
        return kinds.FloatDistribution(one.low, one.high, log=bool(one.log))
    if isinstance(one, Int):
        return kinds.IntDistribution(one.low, one.high, log=bool(one.log))
    values = one.values if isinstance(one, Ordinal) else one.options if isinstance(one, Choice) else ()
    return kinds.CategoricalDistribution([_plain(value) for value in values])


def _plain(value: Any) -> Any:
    """A value as Optuna takes it."""
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)


#: Forms of all trials, which the command line has too.
TRIALS = ("csv", "optuna", "parquet")
_KINDS: Mapping[str, Callable[..., Any]] = {
    "csv": _csv,
    "flower": _flower,
    "json": _json,
    "nvflare": _nvflare,
    "optuna": _optuna,
    "parquet": _parquet,
}
