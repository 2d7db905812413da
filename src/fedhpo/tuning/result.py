"""What a tuning run comes to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from fedhpo.core.errors import InputError
from fedhpo.core.notebook import facts_as_html, shown
from fedhpo.protocol.objective import scored_as
from fedhpo.protocol.outcome import Gain, Outcome, ResultTrial, ShownTrial, Spent, TestScores
from fedhpo.search.verdict import verdict_of
from fedhpo.space.config import Config
from fedhpo.tuning.rows import Table as Table

if TYPE_CHECKING:
    import optuna
    import pandas
    from torch import nn

    from fedhpo.plots import Plots
    from fedhpo.tuning.predict import Predictor


#: A file, or a storage of Optuna's.
Target = str | PathLike[str] | None
#: The scores on test data that a notebook shows.
_TESTED = ("value", "accuracy", "loss")


@dataclass(frozen=True, repr=False)
class Result:
    """The config to use, what it is worth, what it cost, and how it was found.

    That is the best config that the method found, unless the user's own (trial 0) was trained as long and is
    at least as good: `verdict` then says to keep it, and `best_config`, `best_score`, `test` and `model` are
    the own config's. `tuned_config` is what the method found in either case.

    `facts` is what result.json holds; the attributes below read it. Its `best` is the method's, its
    `baseline` the user's own.
    """

    facts: Outcome = field(repr=False)
    history: Table[Mapping[str, Any]] = field(repr=False)
    run: Path | None = None
    model: nn.Module | None = field(default=None, repr=False)
    #: Where the answer is a policy or a table rather than one config.
    policy: Any = field(default=None, repr=False)
    predictor: Predictor | None = field(default=None, repr=False)

    def predict(self, rows: Any) -> list[Any]:
        """The labels of new rows, where data came as columns (`fedhpo.from_csv`, `fedhpo.from_frames`).

        `rows` is a dict from column to value (one row), a list of such dicts, a pandas frame, or a CSV file.
        """
        return self._predictor.predict(rows)

    def predict_proba(self, rows: Any) -> Any:
        """The probability of each class, in the order of `result.predictor.encoding.labels`."""
        return self._predictor.predict_proba(rows)

    @property
    def _predictor(self) -> Predictor:
        if self.predictor is None:
            raise InputError(
                "predict needs data with columns, from fedhpo.from_csv or fedhpo.from_frames, and a trained "
                "model; otherwise call result.model on features as the federation has them"
            )
        return self.predictor

    @property
    def plot(self) -> Plots:
        """Plotly figures: `result.plot.history()`, `.curves()`, `.importance()` and others."""
        from fedhpo.plots import Plots

        return Plots(self.facts, self.history, self.run)

    def to_pandas(self) -> pandas.DataFrame:
        """The trials as a `pandas.DataFrame`; `result.history.to_pandas()` has their rounds."""
        return self.trials.to_pandas()

    @property
    def client_names(self) -> Sequence[str] | None:
        """What clients are called, by their numbers; None where they have no names."""
        return self.facts.client_names

    def client_name(self, client: int) -> str | int:
        """A client's name, or its number where it has none."""
        return client if self.client_names is None else self.client_names[client]

    @property
    def status(self) -> str:
        """`finished`, or `stopped`: then the best so far is named, and the run can be resumed."""
        return str(self.facts["status"])

    @property
    def verdict(self) -> str:
        """Whether tuning improved on the user's own config, in a sentence."""
        return verdict_of(self.facts).text

    @property
    def improved(self) -> bool | None:
        """Whether the method's config is better than the user's own; None where that is not certain."""
        return verdict_of(self.facts).improved

    @property
    def best_config(self) -> Config:
        """The config to use: the best found, or the user's own where that is at least as good."""
        return Config.from_dict(self._best["config"])

    @property
    def tuned_config(self) -> Config:
        """The best config that the method found, whether or not it is better than the user's own."""
        return Config.from_dict(self._tuned["config"])

    @property
    def best_score(self) -> float:
        """Its validation score, in the objective's metric."""
        shown = self._best.validation
        return math.nan if shown is None or shown.value is None else float(shown.value)

    @property
    def metrics(self) -> Mapping[str, float] | None:
        """Means over clients of all metrics at the tuned config's last evaluation; None where private."""
        return self._tuned.metrics

    @property
    def test(self) -> TestScores | None:
        """The objective (`value`), accuracy and loss on test data, which no method sees; None without any."""
        return self._best.test

    @property
    def personal(self) -> Mapping[str, Any] | None:
        """What the model is worth before and after fine-tuning at each client, if that was asked for."""
        return self.facts.personal

    @property
    def tried(self) -> Mapping[str, int]:
        """How many distinct vectors of server and of client hyperparameters were trained with."""
        return self.facts.tried

    @property
    def lineage(self) -> Table[Mapping[str, Any]]:
        """One row per copy of a trial by another: which, of whom, after which round, under which config."""
        rows = []
        for trial in self.facts["trials"]:
            for change in trial["path"][1:]:
                row = {name: change[name] for name in ("round", "source", "score", "source_score")}
                rows.append({"trial": trial["trial"], **row, **Config.from_dict(change["config"]).flat()})
        return Table(sorted(rows, key=lambda row: (row["round"], row["trial"])))

    @property
    def gain(self) -> Gain | None:
        """How much better the method's config is than the user's own (trial 0), with its standard error."""
        return self.facts.gain

    @property
    def cost(self) -> Spent:
        """What was spent."""
        return self.facts.cost

    @property
    def trials(self) -> Table[ResultTrial]:
        """The trials: each with its config, how far it got, and its score; as a table, a row each."""
        return Table([ResultTrial(trial) for trial in self.facts.trials])

    @property
    def pareto(self) -> Table[Mapping[str, Any]]:
        """With several objectives: the trials that none beats in all of them, the best of the first first.

        They keep all constraints, and are compared where trials were trained longest. One row for each: its
        objectives, its constraints, its config. With one objective it is the best trial alone.
        """
        numbers = self.facts.get("pareto")
        if numbers is None:
            numbers = [] if self.facts["best"] is None else [self.facts["best"]["trial"]]
        by_number = {trial["trial"]: trial for trial in self.facts["trials"]}
        rows = []
        for trial in (by_number[number] for number in numbers):
            values = trial.get("objectives") or {self.facts["objective"]["metric"]: trial["score"]}
            row = {"trial": trial["trial"], "rounds": trial["rounds"], **values}
            rows.append(row | trial.get("constraints", {}) | Config.from_dict(trial["config"]).flat())
        return Table(rows)

    @property
    def failures(self) -> Table[Mapping[str, Any]]:
        """Replies of clients that could not be used, one row per reason and client; empty if there were none.

        `facts["failures"]` holds the same by reason: how often, at how many clients, and the first of them.
        """
        names = ("client", "count", "first_trial", "first_round")
        return Table(
            [
                {"reason": one["reason"], "status": one["status"], "during": one["during"]}
                | dict(zip(names, [self.client_name(seen[0]), *seen[1:]], strict=True))
                for one in self.facts.get("failures", ())
                for seen in one["by_client"]
            ]
        )

    @property
    def policies(self) -> Sequence[Mapping[str, Any]]:
        """Of each trial whose client policy learns: its arms, and the policy after every round."""
        return self.facts.policies or ()

    @property
    def _tuned(self) -> ShownTrial:
        best = self.facts.best
        if best is None:
            more = "nothing was kept: allow it more time, or give run=, a directory from which it can go on"
            if self.run is not None:
                more = f"resume it: the same call with run={str(self.run)!r} goes on"
            raise InputError(f"the run was stopped before any trial was scored; {more}")
        return best

    @property
    def _best(self) -> ShownTrial:
        """The method's best, or the user's own, whichever is to be used."""
        tuned, own = self._tuned, self.facts.baseline
        return own if own is not None and verdict_of(self.facts).use == "own" else tuned

    @overload
    def export(self, to: Literal["flower", "nvflare", "json", "csv"], target: Target = None) -> str: ...

    @overload
    def export(self, to: Literal["parquet"], target: Target = None) -> bytes: ...

    @overload
    def export(self, to: Literal["optuna"], target: Target = None) -> optuna.Study: ...

    @overload
    def export(self, to: str, target: Target = None) -> Any: ...

    def export(self, to: str, target: Target = None) -> Any:
        """The best config, or all trials, in another tool's form; written to `target` too, if there is one.

        - "flower": the best config as a part of `pyproject.toml`, whose keys a `ServerApp` reads as
          `context.run_config["client.lr"]`;
        - "nvflare": the best config as arguments of a recipe, JSON with `num_rounds` and `train_args`;
        - "json": the best config;
        - "csv" (text) and "parquet" (bytes): all trials, a row each;
        - "optuna": all trials as an `optuna.Study`, in memory, or in the storage that `target` names
          ("sqlite:///study.db"), for its dashboard and plots.
        """
        from fedhpo.tuning.export import exported

        return exported(self, to, target)

    @property
    def best_rounds(self) -> int:
        """How many rounds the config to use was trained for."""
        return self._best.rounds

    def _said_of_several(self) -> list[str]:
        """How many trials are worth a choice, and whether the best one keeps the constraints."""
        lines = []
        if names := [one["name"] for one in self.facts.get("objectives", ())][1:]:
            count = len(self.facts["pareto"])
            values = ", ".join(f"{name} {shown(self._best['objectives'].get(name))}" for name in names)
            lines.append(f"{values}; {count} trials in the Pareto set: see result.pareto")
        if self._tuned.get("violation"):
            broken = ", ".join(f"{text}: {shown(v)}" for text, v in self._tuned["constraints"].items())
            lines.append(f"no trial keeps all constraints; the best has {broken}")
        return lines

    def __repr__(self) -> str:
        return f"<Result: {str(self).splitlines()[0]}>"

    def _repr_html_(self) -> str:
        if self.facts["best"] is None:
            return facts_as_html(str(self), {})
        tested = {f"test {name}": self.test[name] for name in _TESTED if self.test is not None}
        facts = {
            f"{scored_as(self.facts['objective'])} {self.facts['objective']['metric']}": self.best_score,
            **{name: value for name, value in tested.items() if value is not None and math.isfinite(value)},
            "gain": self.verdict,
            **self.best_config.flat(),
            "trials": len(self.facts["trials"]),
            "rounds spent": self.cost.rounds,
            "run": self.run,
        }
        return facts_as_html(f"{self.status}: {self.facts['method']['name']}", facts)

    def __str__(self) -> str:
        if self.facts["best"] is None:
            return f"{self.status}: no trial was scored yet"
        metric = self.facts["objective"]["metric"]
        found = "kept private" if math.isnan(self.best_score) else f"{self.best_score:.4f}"
        whose = "your own config" if verdict_of(self.facts).use == "own" else f"trial {self._best['trial']}"
        kind = scored_as(self.facts["objective"])
        lines = [f"{self.status}: {whose}, {kind} {metric} {found}"]
        if "from" in self.facts["objective"]:
            lines.append(f"scored by {self.facts['objective']['metric_is']}")
        tested = None if self.test is None else self.test.value
        if tested is not None and math.isfinite(tested):
            lines.append(f"test {metric} {tested:.4f}")
        others = {k: v for k, v in (self.metrics or {}).items() if k not in ("loss", "accuracy", metric)}
        lines += [f"{kind} {name} {value:.4f}" for name, value in others.items()]
        lines += self._said_of_several()
        lines += [f"gain: {self.verdict}", str(self.best_config)]
        noted = [self.facts.get("note"), *self.facts.get("bounds", ())]
        lines += [f"note: {note}" for note in noted if note]
        if failed := sum(one["count"] for one in self.facts.get("failures", ())):
            lines.append(f"{failed} replies of clients could not be used: see failures")
        return "\n".join(lines)
