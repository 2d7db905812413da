"""What is optimised: a metric, and how it is put together over clients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.claims import setting
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.protocol.federation import Federation, Floats, Ints, Scores
from fedhpo.protocol.metrics import BASE, NAMED, Metric, direction_of, distinct
from fedhpo.protocol.middle import middle_and_error

#: Where scores come from. The last two are for Flower apps, whose clients may have no `evaluate`.
CLIENTS, SERVER, TRAINING = FROM = ("clients", "server", "training")
#: How scores are put together over clients.
OVER = ("mean", "tail", "worst", "median", "trimmed")
#: The mean over classes of the share of a class' rows that is predicted correctly.
BALANCED = "balanced_accuracy"


@dataclass(frozen=True)
class Score:
    """A trial's score as it was observed: lower `rank_value` is better whatever the metric.

    `standard_error` is that of drawing the clients, 0 where all of them were asked, and of privacy noise.
    """

    value: float
    standard_error: float
    clients: int
    round: int
    rank_value: float
    #: Of each further objective its score; see `fedhpo.protocol.criteria`.
    others: tuple[Score, ...] = field(default=(), repr=False)
    #: What each constraint limits.
    limited: tuple[float, ...] = field(default=(), repr=False)
    #: How far constraints are broken; 0 where all are kept.
    violation: float = field(default=0.0, repr=False)

    @property
    def point(self) -> tuple[float, ...]:
        """Of every objective the number of which less is better."""
        return (self.rank_value, *(one.rank_value for one in self.others))

    def to_dict(self) -> dict[str, Any]:
        """For result.json; None for what is not known."""
        return {
            "value": self.value if math.isfinite(self.value) else None,
            "standard_error": self.standard_error if math.isfinite(self.standard_error) else None,
            "clients": self.clients,
            "round": self.round,
        }


@dataclass(frozen=True)
class Objective:
    """The metric to optimise, over clients.

    `metric` is "accuracy", "error" (1 minus the accuracy), "loss"; one that clients compute from outputs and
    targets: "balanced_accuracy", "auroc", "average_precision", "f1", "f1_macro", "top_3_accuracy" (any
    number), "perplexity", "mae", "rmse", "r2", or a scorer of scikit-learn by name; or the name of a
    `fedhpo.Metric` that `fedhpo.tune` is given: then state the `direction`. `also` are metrics to report
    beside it.

    `over` is "mean", or "tail": the mean over the share `tail` of clients that are worst off, for
    models that must serve everybody; or "worst": the one client that is worst off. Where some clients may
    lie, "median", or "trimmed": the mean without the share `trim` of clients at either end; in both every
    client counts once, whatever its size. `weighting` is "size" (a client counts by its number of rows) or
    "uniform". `direction` follows from the metric; if given, it is checked. A metric of your own needs it.

    `from_` (in a study file `from`) is for Flower apps and NVFlare jobs: "clients" (their `evaluate`),
    "server" (the server's `evaluate_fn`, often on test rows; no scores by client) or "training" (what clients
    return of training).
    With `at_zero`, names of the app's learning rates, the last is the loss of the received model: clients are
    asked to train with these at 0. Without it, it is the mean over the last round's replies, taken while
    weights moved.

    With `pooled`, which is for simulation, a metric that is no mean over samples, such as AUROC, is that of
    all clients' rows together in place of the mean over clients.

    >>> Objective("error").maximise
    False
    """

    metric: str = "accuracy"
    over: str = "mean"
    tail: float = setting(0.1, over="tail")
    weighting: str = setting("size", over=("mean", "tail"), pooled=False)
    direction: str | None = None
    trim: float = setting(0.25, over="trimmed")
    also: Sequence[str] = ()
    pooled: bool = False
    from_: Literal["clients", "server", "training"] = "clients"
    at_zero: Sequence[str] = setting((), from_=TRAINING)

    def __post_init__(self) -> None:
        check_settings(self)
        if self.direction not in (None, "maximize", "minimize"):
            raise unknown_name("direction", self.direction, ["maximize", "minimize"])
        object.__setattr__(self, "also", tuple(self.also))
        object.__setattr__(self, "at_zero", tuple(self.at_zero))
        self._check_source()
        known = direction_of(self.metric)
        if known is None and self.direction is None:
            error = unknown_name("metric", self.metric, [*BASE, *NAMED, "top_3_accuracy"])
            raise InputError(f"{error}; a metric of your own needs direction = 'maximize' or 'minimize'")
        natural = self.direction if known is None else "maximize" if known else "minimize"
        if self.direction not in (None, natural):
            raise InputError(f"direction of {self.metric} is {natural!r}, not {self.direction!r}")
        if self.over not in OVER:
            raise unknown_name("objective over clients", self.over, OVER)
        if self.pooled and (self.over != "mean" or self.metric in BASE):
            why = f"over = {self.over!r}" if self.metric not in BASE else f"metric = {self.metric!r}"
            raise InputError(
                f"pooled is for means over clients of metrics such as 'auroc', it does not go with {why}; "
                "the mean by size of 'accuracy', 'error' or 'loss' is that of all rows already"
            )
        if not 0 <= self.trim < 0.5:
            raise InputError(f"trim must be a share in [0, 0.5), not {self.trim!r}")
        if not 0 < self.tail <= 1:
            raise InputError(f"tail must be a share in (0, 1], not {self.tail!r}")
        if self.weighting not in ("size", "uniform"):
            raise unknown_name("weighting", self.weighting, ["size", "uniform"])

    def _check_source(self) -> None:
        if self.from_ not in FROM:
            raise unknown_name("source of scores", self.from_, FROM)
        if self.by_client:
            return
        if self.over != "mean" or self.pooled:
            what = f"over = {self.over!r}" if self.over != "mean" else "pooled"
            raise InputError(f"{what} needs scores by client, and from = {self.from_!r} has none")

    @property
    def by_client(self) -> bool:
        """Whether every client has a score of its own."""
        return self.from_ == CLIENTS or bool(self.at_zero)

    @property
    def robust(self) -> bool:
        """Whether a few clients that lie cannot move it far."""
        return self.over in ("median", "trimmed")

    @property
    def maximise(self) -> bool:
        """Whether more is better."""
        known = direction_of(self.metric)
        return self.direction == "maximize" if known is None else known

    def values(self, scores: Scores) -> Floats:
        """The metric at each client."""
        if self.metric in scores.metrics:
            return scores.metrics[self.metric]
        if self.metric == "loss":
            return scores.loss
        if self.metric == BALANCED:  # of learners, whose loss is 1 minus what they score
            return 1 - scores.loss
        return scores.accuracy if self.metric == "accuracy" else 1 - scores.accuracy

    def observe(self, scores: Scores, round: int, population: int) -> Score:
        """The score over these clients, drawn without replacement from `population` clients."""
        values, weights = self._counted(scores)
        if not len(values):
            return Score(math.nan, math.nan, 0, round, math.inf)
        if self.robust:
            mean, error = middle_and_error(values, self.over, self.trim)
        else:
            chosen = self._chosen(values, weights)
            mean, error = mean_and_error(values[chosen], weights[chosen])
        drawn = 1 - min(1.0, len(values) / max(population, 1))  # all of them: no error of drawing
        rank = -mean if self.maximise else mean
        error *= math.sqrt(drawn)
        if self.pooled:  # every client's entry is the same: that says nothing of the error
            error = math.nan if drawn else 0.0
        return Score(mean, error, len(values), round, rank if math.isfinite(mean) else math.inf)

    def rank_values(self, scores: Scores) -> Floats:
        """The metric at each client as a number of which less is better.

        It is NaN where the client does not count, and infinite where the model has no finite score there.
        """
        values = self.values(scores)
        ranked = np.where(np.isfinite(values), -values if self.maximise else values, math.inf)
        return np.where(self._known(scores), ranked, math.nan)

    def weights(self, scores: Scores) -> Floats:
        """What each client counts."""
        return scores.size.astype(np.float64) if self.weighting == "size" else np.ones(len(scores.size))

    def _counted(self, scores: Scores) -> tuple[Floats, Floats]:
        known = self._known(scores)
        return self.values(scores)[known], self.weights(scores)[known]

    def _known(self, scores: Scores) -> NDArray[np.bool_]:
        """Which clients replied and have rows."""
        known: NDArray[np.bool_] = (scores.status == 0) & (scores.size > 0)
        if self.metric in scores.metrics:  # not defined at every client, as AUROC where all are of one class
            known &= ~np.isnan(scores.metrics[self.metric])
        elif self.metric in (
            "accuracy",
            "error",
        ):  # with a loss and without an accuracy it tells nothing here
            known &= ~(np.isnan(scores.accuracy) & np.isfinite(scores.loss))
        return known

    def _chosen(self, values: Floats, weights: Floats) -> NDArray[np.int64]:
        """Which clients count: all, the worst off, whose weights make up the share `tail`, or the worst."""
        if self.over == "mean":
            return np.arange(len(values))
        worst_first = np.argsort(values if self.maximise else -values, kind="stable")
        if self.over == "worst":
            return worst_first[:1]
        reached = np.cumsum(weights[worst_first]) / weights.sum()
        return worst_first[: int(np.searchsorted(reached, self.tail) + 1)]

    def to_dict(self) -> dict[str, Any]:
        """For result.json."""
        facts: dict[str, Any] = {
            "metric": self.metric,
            "direction": "maximize" if self.maximise else "minimize",
            "over": self.over,
            "weighting": self.weighting,
        }
        if self.from_ != CLIENTS:
            facts |= {"from": self.from_, "metric_is": self._what_it_is()}
        elif self.pooled:
            facts["metric_is"] = f"the {self.metric} of all clients' rows together, pooled in the simulation"
        elif self.metric not in (*BASE, BALANCED):
            facts["metric_is"] = f"the mean over clients of each one's {self.metric}, not that of all rows"
        if self.also:
            facts["also"] = list(self.also)
        own = {"tail": self.tail} if self.over == "tail" else {}
        own |= {"pooled": True} if self.pooled else {}
        return facts | own | ({"trim": self.trim} if self.over == "trimmed" else {})

    def _what_it_is(self) -> str:
        if self.from_ == SERVER:
            return (
                f"the {self.metric} of the server's own evaluate_fn: one number for a model, without an "
                f"error "
                "and without scores by client; its rows are often the app's test set, on which the winner "
                "was "
                "then chosen"
            )
        if self.at_zero:
            return (
                f"the {self.metric} of the received model on clients' training rows, by training calls with "
                f"{', '.join(self.at_zero)} at 0"
            )
        return (
            f"the {self.metric} of training, a mean over the last round's replies: taken while weights "
            f"moved, on "
            "training rows, so that more local steps lower it by themselves"
        )


def scored_as(objective: Mapping[str, Any]) -> str:
    """What a score is called, given an objective's facts: a validation score, unless no client gave it.

    >>> scored_as({"metric": "loss"}), scored_as({"metric": "loss", "from": "server"})
    ('validation', "server's")
    """
    return {SERVER: "server's", TRAINING: "training"}.get(objective.get("from", CLIENTS), "validation")


def objective_of(scoring: str | None) -> Objective:
    """The default objective: the metric by which the federation's clients score.

    >>> [objective_of(scoring).metric for scoring in (None, "balanced_accuracy", "r2")]
    ['accuracy', 'balanced_accuracy', 'loss']
    """
    if scoring is None:
        return Objective()
    return Objective(scoring if scoring in ("accuracy", BALANCED) else "loss")


def metrics_of(objective: Objective, more: Sequence[Any], federation: Federation) -> tuple[Metric, ...]:
    """What clients must compute beside what they score by anyway."""
    if federation.own_metrics:
        return distinct(more)
    check_source(objective)
    own = {one.name for one in more if isinstance(one, Metric)}
    named = [name for name in (objective.metric, *objective.also) if name not in own]
    known = [name for name in named if name != objective.metric or direction_of(name) is not None]
    found = distinct([*dict.fromkeys(known), *more])
    if objective.pooled:
        return tuple(replace(metric, pooled=True) for metric in found)
    return tuple(metric for metric in found if metric.name != BALANCED or federation.scoring != BALANCED)


def check_source(objective: Objective) -> None:
    """Refuse scores of a server or of training where there is no app that has them."""
    if objective.from_ != CLIENTS:
        raise InputError(
            f"objective.from = {objective.from_!r} is for Flower apps ([app]) and NVFlare jobs ([job]): "
            "leave it out"
        )


def natural_objective(federation: Federation) -> Objective:
    """What is optimised unless something is said: what clients score by, or what goes with their targets."""
    if federation.scoring is None and federation.task == "regression":
        return Objective("loss")
    return objective_of(federation.scoring)


def mean_and_error(values: Floats, weights: Floats) -> tuple[float, float]:
    """A weighted mean and its standard error, clients being drawn at random (Cochran, 1977, ch. 6).

    >>> mean_and_error(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    (0.5, 0.5)
    """
    total = weights.sum()
    mean = float((weights * values).sum() / total)
    n = len(values)
    if n < 2:
        return mean, math.nan
    spread = float((weights**2 * (values - mean) ** 2).sum()) / total**2
    return mean, math.sqrt(spread * n / (n - 1))


def paired_gain(objective: Objective, better: Scores, than: Scores) -> tuple[float, float, int]:
    """How much better one trial is than another at the same clients: gain, standard error, clients.

    The clients are taken as a sample of those the model will serve, so the error is not 0 even where
    all clients of the federation were asked. A gain is positive where `better` is better. For a tail
    objective the gain is the difference of the two tails, and its error is not known (NaN).
    The same holds for "worst", and for a metric that is pooled.
    """
    if objective.over in ("tail", "worst") or objective.pooled:
        first, second = (objective.observe(s, 0, 0).rank_value for s in (better, than))
        return second - first, math.nan, len(better.clients)
    _, ours, theirs = np.intersect1d(better.clients, than.clients, return_indices=True)
    difference = objective.values(better)[ours] - objective.values(than)[theirs]
    sizes: Ints = better.size[ours]
    known = np.isfinite(difference) & (sizes > 0)
    if not known.any():
        return math.nan, math.nan, 0
    if objective.robust:
        gain, error = middle_and_error(difference[known], objective.over, objective.trim)
        return (gain if objective.maximise else -gain), error, int(known.sum())
    weights = sizes[known].astype(np.float64) if objective.weighting == "size" else np.ones(known.sum())
    gain, error = mean_and_error(difference[known], weights)
    return (gain if objective.maximise else -gain), error, int(known.sum())


#: By what a client that searches on its own rows scores a torch model.
LOCAL_SCORINGS = ("accuracy", "loss")
#: Metrics that scikit-learn's scorers call otherwise.
_SCORERS = {
    "error": "accuracy",
    "auroc": "roc_auc",
    "mae": "neg_mean_absolute_error",
    "rmse": "neg_root_mean_squared_error",
}


def local_scoring(metric: str) -> str:
    """What parties score by, so that their searches go by the metric of the objective.

    >>> local_scoring("error"), local_scoring("balanced_accuracy")
    ('accuracy', 'balanced_accuracy')
    """
    return _SCORERS.get(metric, metric)
