"""The federation of learners passes the suite of learners."""

import numpy as np

import fedhpo as fh
from fedhpo.testing.learners import LearnerSuite
from fedhpo.testing.parties import BAYES, party_data


class TestLearners(LearnerSuite):
    client = {"var_smoothing": 0.1}  # noqa: RUF012

    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    names = ("smoothing", "var_smoothing")

    def make(self):
        return fh.LearnerFederation(party_data(parties=6, count=40), BAYES, workers=0)

    def test_trials_do_not_depend_on_each_other_and_repeat(self, federation):
        self.start(federation, 0, 1, 2)
        federation.round([self.work(federation, 0), self.work(federation, 1, members=2)])
        federation.round([self.work(federation, 2)])
        first, other, again = federation.evaluate([0, 1, 2], federation.validation_clients)
        np.testing.assert_array_equal(first.loss, again.loss)
        assert not np.array_equal(first.loss, other.loss)
        assert first.cost.bytes_down > 0
