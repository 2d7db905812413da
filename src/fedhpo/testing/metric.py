"""What every metric must do, as tests to inherit from.

class TestMine(MetricSuite):
    name = "brier:Brier"
"""

from __future__ import annotations

import math

import numpy as np

from fedhpo.protocol.metrics import Metric, metric_of
from fedhpo.protocol.own_metric import own_metric


class MetricSuite:
    """Tests of a metric of classes, by the name that a study file has for it."""

    name: str

    def metric(self) -> Metric:
        """The metric to test."""
        return own_metric(self.name) or metric_of(self.name)

    def test_perfect_answers_are_better_than_wrong_ones(self) -> None:
        metric, targets = self.metric(), np.array([0, 1, 2, 0, 1, 2])
        right = metric.value(np.eye(3)[targets] * 0.97 + 0.01, targets)
        wrong = metric.value(np.eye(3)[(targets + 1) % 3] * 0.97 + 0.01, targets)
        assert right > wrong if metric.maximise else right < wrong

    def test_a_client_without_rows_has_no_value(self) -> None:
        assert math.isnan(self.metric().value(np.zeros((0, 3)), np.zeros(0, np.int64)))

    def test_what_it_is_given_is_left_as_it_was(self) -> None:
        outputs, targets = np.full((4, 3), 1 / 3), np.array([0, 1, 2, 0])
        before = outputs.copy()
        self.metric().value(outputs, targets)
        assert (outputs == before).all()
