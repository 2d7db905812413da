"""A trainee of one's own: logistic regression in numpy, for the server and the clients, in one class.

`own_trainee.toml` names it: `fedhpo tune own_trainee.toml --workers 2`, or `--ray auto`. The same study runs
over Flower and NVFlare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fedhpo.parties.trainee import Rows, Scored, Task, Trained, generator


@dataclass(frozen=True)
class Logistic:
    """Multinomial logistic regression by SGD; its fields are keys of `[model]`."""

    penalty: float = 0.0
    features: int = 64
    classes: int = 10

    #: What `[space.client]` may tune.
    hyperparameters: ClassVar[tuple[str, ...]] = ("lr", "batch", "epochs")

    def first(self, seed: int, **model: Any) -> dict[str, Any]:
        """The weights that a trial begins with."""
        return {"w": np.zeros((self.features, self.classes)), "b": np.zeros(self.classes)}

    def train(self, arrays: Any, task: Task, rows: Rows) -> Trained:
        """SGD on the client's training rows."""
        w, b = arrays["w"].astype(float), arrays["b"].astype(float)
        x, y = self._rows(rows, "train")
        rng, config = generator(task, rows), task.config
        for _ in range(config.get("epochs", 1)):
            order = rng.permutation(len(y))
            for batch in np.split(order, range(config["batch"], len(y), config["batch"])):
                error = self._probabilities(x[batch], w, b) - np.eye(self.classes)[y[batch]]
                w -= config["lr"] * (x[batch].T @ error / len(batch) + self.penalty * w)
                b -= config["lr"] * error.mean(axis=0)
        return Trained({"w": w, "b": b}, len(y), len(rows.split("validation")[1]))

    def evaluate(self, arrays: Any, task: Task, rows: Rows) -> Scored:
        """Mean log-loss and accuracy."""
        x, y = self._rows(rows, task.split)
        if not len(y):
            return Scored(0)
        told = self._probabilities(x, arrays["w"].astype(float), arrays["b"].astype(float))
        loss = -np.log(np.maximum(told[np.arange(len(y)), y], 1e-12)).mean()
        return Scored(len(y), float(loss), float((told.argmax(axis=1) == y).mean()))

    def _rows(self, rows: Rows, split: str) -> tuple[Any, Any]:
        x, y = rows.split(split)
        return x.reshape(len(x), -1), y

    @staticmethod
    def _probabilities(x: Any, w: Any, b: Any) -> Any:
        scores = x @ w + b
        raised = np.exp(scores - scores.max(axis=1, keepdims=True))
        return raised / raised.sum(axis=1, keepdims=True)
