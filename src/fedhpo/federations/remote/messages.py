"""What server and clients say to each other, whatever brings the messages.

Every message holds facts, as JSON, and models: named float32 arrays each (boosted trees: bytes). A message
may hold several tasks: several trials, each with its own model and config.

- `train`: `{"format": 1, "client": 3, "tasks": [TASK, ...]}`, a task as in `Task.to_dict`, its `arrays`
  naming the model. The reply is `{"format": 1, "replies": [REPLY, ...]}`, one for each task and in
  their order: `{"trial": 0, "arrays": "model-0", "train_size": 90, "validation_size": 10, "loss_before": 2.3,
  "loss_after": 1.9, ...}`, where `arrays` names the model after training; or
  `{"trial": 0, "failure": "in words", "why": "raised"}`.
- `evaluate`: the same without training; a reply is `{"trial": 0, "size": 10, "loss": 2.3, "accuracy": 0.1}`.
  Where the task names `metrics`, the reply holds them too: `"metrics": {"auroc": 0.8}`.
- `query.NAME`: work that is not a round; a reply is `{"answer": ...}`, whatever JSON the query wants.
  `query.hello` asks who is there, the answer is `{"partition": 3, "name": null, "sizes": {"train": 90}}`.
  `query.left_out` tells a node that it takes no part, and why: `"query": {"why": "..."}`; any answer will do.

A score that there is not is null or NaN. A client whose training diverged, so that the model after it is not
finite, says so: `"why": "diverged"`. A client of 0.2.0 tells no kind but "update is not finite". `"open"` is
what a private run may show of a failure: an exception's class and line. Arrays that hold NaN are rejected.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpo.federations.remote.layout import Rejected

FORMAT = 1
TRAIN, EVALUATE, QUERY, HELLO, LEFT_OUT = "train", "evaluate", "query", "hello", "left_out"
#: A client's update weighs by its rows; by any other word, its rows do not matter.
BY_SIZE, UNIFORM = "size", "uniform"
#: The longest JSON that a reply may hold; the answer to a query may be long.
MOST_JSON = 1 << 24

NamedArrays = Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Task:
    """What one task asks: which trial, at which round of it, under which hyperparameters.

    `trial` is -1 in a query that is about none. `config` are client hyperparameters, `model` those of the
    model's shape; with a `rule` the client finds its `config` itself. `seed` is for the client's random
    numbers: the same task has the same one. `scores` says whether to score the model "before" and "after",
    on the rows of `split`. `weighting` says, with a rule, whether the client's number of rows matters: where
    it does not, the reply leaves out sizes and accuracies. `metrics` are further metrics to compute in an
    evaluation, by name. `app` is for a Flower app that is tuned as it is (`fedhpo.federations.apps`).
    `rounds` is the length of one full training, 0 where the server does not say.
    `frozen` is the digest of the model's frozen weights, which do not travel: the client must have the same.
    """

    trial: int
    client: int = 0
    round: int = 0
    model: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    rule: Mapping[str, Any] | None = None
    scores: tuple[str, ...] = ()
    seed: tuple[int, ...] = ()
    split: str = "validation"
    weighting: str = BY_SIZE
    metrics: tuple[str, ...] = ()
    app: Mapping[str, Any] | None = None
    rounds: int = 0
    frozen: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The task as it travels, but for the client's number, which its message holds.

        >>> Task(trial=0, config={"lr": 0.1}, scores=("before",), seed=(7, 0)).to_dict()
        {'trial': 0, 'round': 0, 'model': {}, 'config': {'lr': 0.1}, 'scores': ['before'], 'seed': [7, 0], \
'split': 'validation'}
        """
        how: dict[str, Any] = {"config": dict(self.config)}
        if self.rule is not None:
            how = {"rule": dict(self.rule), "weighting": self.weighting}
        return {
            "trial": self.trial,
            "round": self.round,
            "model": dict(self.model),
            **how,
            "scores": list(self.scores),
            "seed": list(self.seed),
            "split": self.split,
            **({"metrics": list(self.metrics)} if self.metrics else {}),
            **({} if self.app is None else {"app": dict(self.app)}),
            **({"rounds": self.rounds} if self.rounds else {}),
            **({} if self.frozen is None else {"frozen": self.frozen}),
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], client: int) -> Task:
        """What `to_dict` wrote."""
        values = {
            name: given[name] for name in ("round", "rounds", "model", "split", "weighting") if name in given
        }
        return cls(
            given.get("trial", -1),
            client=client,
            config=given.get("config", {}),
            rule=given.get("rule"),
            scores=tuple(given.get("scores", ())),
            seed=tuple(given.get("seed", ())),
            metrics=tuple(given.get("metrics", ())),
            app=given.get("app"),
            frozen=given.get("frozen"),
            **values,
        )


@dataclass(frozen=True)
class Trained:
    """What a client sends back of training: the model's arrays after it, rows and scores.

    Of boosted trees `arrays` are bytes (`fedhpo.learners.bagging`).
    `samples` counts the rows trained on, each as often as it was; `train_size` if left out.
    """

    arrays: NamedArrays | bytes
    train_size: int
    validation_size: int = 0
    loss_before: float = math.nan
    loss_after: float = math.nan
    accuracy_before: float = math.nan
    accuracy_after: float = math.nan
    samples: int | None = None


@dataclass(frozen=True)
class Scored:
    """What a client sends back of an evaluation: rows, mean loss and accuracy over them, further metrics."""

    size: int
    loss: float = math.nan
    accuracy: float = math.nan
    metrics: Mapping[str, float] = field(default_factory=dict)


def to_text(facts: Mapping[str, Any]) -> str:
    """Facts as they travel."""
    return json.dumps({"format": FORMAT, **facts})


def from_text(text: str) -> dict[str, Any]:
    """What `to_text` wrote, or somebody else; `Rejected` where it is not ours."""
    if len(text) > MOST_JSON:
        raise Rejected(f"its JSON has {len(text)} characters, at most {MOST_JSON} are read")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Rejected(f"its JSON cannot be read: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise Rejected(f"the message is not in format {FORMAT}: is fedhpo of one version on all machines?")
    return found


def replies_in(facts: Mapping[str, Any], expected: int) -> Sequence[Any]:
    """The replies in a message: one for each task, in their order."""
    found = facts.get("replies")
    if not isinstance(found, list) or len(found) != expected:
        count = len(found) if isinstance(found, list) else "no"
        raise Rejected(f"{count} replies to {expected} tasks")
    return found
