"""The federation of learners passes the shared suite, as far as one round a trial goes."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.testing.federation import FederationSuite
from fedhpo.testing.parties import BAYES, party_data


class TestLearners(FederationSuite):
    client = {"var_smoothing": 0.1}  # noqa: RUF012

    # A learner has no weights before it is trained, and is trained whole in its one round.
    test_the_seed_alone_decides_the_first_weights = None
    test_a_report_has_one_entry_per_member_in_the_order_of_the_cohort = None
    test_a_round_in_which_nobody_moves_changes_no_score = None
    test_one_round_per_trial_at_a_time = None
    test_a_trial_does_not_depend_on_what_others_do = None
    test_the_same_calls_give_the_same_bits = None
    test_scores_have_one_entry_per_client = None
    test_a_round_costs_what_it_moves = None
    test_restored_trials_go_on_bit_for_bit = None
    test_saved_trials_go_on_bit_for_bit_in_a_fresh_federation = None
    # The query that it answers is another one.
    test_fine_tuning_is_answered_per_client_and_changes_nothing = None
    test_a_query_about_a_trial_or_client_that_is_not_there_is_an_error = None

    def make(self):
        return fh.LearnerFederation(party_data(parties=6, count=40), BAYES, workers=0)

    def test_an_unknown_hyperparameter_is_named_with_the_known(self, federation):
        self.start(federation, 0)
        with pytest.raises(InputError, match=r"smoothing.*var_smoothing"):
            federation.round([self.work(federation, client={"smoothing": 0.1})])
        with pytest.raises(InputError, match="lr"):
            federation.round([self.work(federation, server={"lr": 0.1})])
        assert self.train(federation, 0, 1).round == 1

    def test_trials_do_not_depend_on_each_other_and_repeat(self, federation):
        self.start(federation, 0, 1, 2)
        federation.round([self.work(federation, 0), self.work(federation, 1, members=2)])
        federation.round([self.work(federation, 2)])
        first, other, again = federation.evaluate([0, 1, 2], federation.validation_clients)
        np.testing.assert_array_equal(first.loss, again.loss)
        assert not np.array_equal(first.loss, other.loss)
        assert first.cost.bytes_down > 0
