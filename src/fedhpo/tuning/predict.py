"""Predictions on new rows as people have them: encoded, filled in and scaled as the training rows were."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Federation

if TYPE_CHECKING:
    from fedhpo.data.columns import Preparation
    from fedhpo.data.encoding import Encoding
    from fedhpo.protocol.objective import Objective
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: Clients beyond which their names are not written into the result.
_NAMED = 1000


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model together with what its rows must go through."""

    model: Any
    encoding: Encoding
    prepare: Preparation

    @property
    def has_probabilities(self) -> bool:
        """Whether the model tells probabilities of classes; a support vector machine, say, does not."""
        known = hasattr(self.model, "state_dict") or hasattr(self.model, "predict_proba")
        return known and self.encoding.task != "regression"

    def predict(self, rows: Any) -> list[Any]:
        """The label of each row, as the data calls it; for regression the number."""
        x = self._rows(rows)
        if self.has_probabilities:
            return [self.encoding.labels[place] for place in self._probabilities(x).argmax(axis=1)]
        outputs = self._torch(x) if hasattr(self.model, "state_dict") else np.asarray(self.model.predict(x))
        if self.encoding.task == "regression":
            return [float(value) for value in outputs.reshape(len(outputs))]
        return [self.encoding.labels[int(place)] for place in outputs]

    def predict_proba(self, rows: Any) -> NDArray[Any]:
        """The probability of each class, in the order of `encoding.labels`."""
        if self.encoding.task == "regression":
            raise InputError("predict_proba: there are no classes, the label is a number: use predict")
        if not self.has_probabilities:
            raise InputError(
                f"predict_proba: {type(self.model).__name__} has no probabilities, only classes: use predict"
            )
        return self._probabilities(self._rows(rows))

    def _rows(self, rows: Any) -> NDArray[Any]:
        found: NDArray[Any] = self.prepare(self.encoding.encode(rows))
        return found

    def _probabilities(self, x: NDArray[Any]) -> NDArray[Any]:
        if hasattr(self.model, "state_dict"):
            return self._torch(x)
        return self._spread(np.asarray(self.model.predict_proba(x)))

    def _spread(self, found: NDArray[Any]) -> NDArray[Any]:
        """Probabilities over all classes; the estimator knows only those that it was fitted on."""
        known = np.asarray(self.model.classes_, int)
        whole = np.zeros((len(found), max(len(self.encoding.labels), int(known.max()) + 1)))
        whole[:, known] = found
        return whole

    def _torch(self, x: NDArray[Any]) -> NDArray[Any]:
        import torch

        self.model.eval()
        with torch.no_grad():
            outputs = self.model(torch.as_tensor(x, dtype=torch.float32))
            if self.encoding.task != "regression":
                outputs = outputs.softmax(dim=1)
        return np.asarray(outputs.cpu().numpy())


def predictor_of(federation: Federation, model: Any) -> Predictor | None:
    """The predictor of a trained model, where data came as columns."""
    about = federation.about
    if model is None or about.encoding is None or about.preparation is None:
        return None
    return Predictor(model, about.encoding, about.preparation)


def named_clients(federation: Federation) -> list[str] | None:
    """What clients are called, for the result; None where they have no names, or are very many."""
    names = federation.client_names
    return None if names is None or len(names) > _NAMED else [str(name) for name in names]


def scores_of(search: Search, trial: Trial) -> dict[str, Any]:
    """The trial's last validation scores: means of all metrics, and the objective at each client.

    Nothing where scores are private; no scores by client where these are very many.
    """
    if search.evaluator.privacy is not None or not trial.evaluations:
        return {"metrics": None, "by_client": None}
    scores = trial.evaluations[-1].scores
    weighting: Literal["size", "uniform"] = "size" if search.objective.weighting == "size" else "uniform"
    means = {name: scores.mean(name, weighting) for name in ("accuracy", "loss", *scores.metrics)}
    values = search.objective.values(scores)
    known = np.flatnonzero((scores.status == 0) & (scores.size > 0) & np.isfinite(values))
    by_client = {
        "client": scores.clients[known].tolist(),
        "value": values[known].tolist(),
        "size": scores.size[known].tolist(),
    }
    return {
        "metrics": {name: value for name, value in means.items() if math.isfinite(value)},
        "by_client": by_client if len(scores.clients) <= _NAMED else None,
    }


def majority_note(federation: Federation, objective: Objective, best: Mapping[str, Any] | None) -> str:
    """A note where the best score does not beat predicting the commonest class."""
    share = federation.about.majority
    value = ((best or {}).get("validation") or {}).get("value")
    if (
        share is None
        or value is None
        or objective.metric not in ("accuracy", "error")
        or objective.over != "mean"
    ):
        return ""
    accuracy = value if objective.metric == "accuracy" else 1 - value
    if objective.weighting != "size" or accuracy > share + 1e-6:
        return ""
    return (
        f"{objective.metric} {value:.4f} does not beat predicting the commonest class "
        f"({share:.1%} of validation rows): look at 'balanced_accuracy', 'auroc' or 'f1'"
    )
