"""FLoRA's settings have an effect, or are refused with what to do; the noise of its privacy too."""

import math

import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.queries.local_search import PartySearch
from fedhpo.testing import ToyFederation
from fedhpo.testing.parties import BAYES, party_data

SPACE = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True, default=0.001)})


class Parties(ToyFederation):
    """Three parties whose losses are the distance of lr, in decades, from a best one of their own."""

    def __init__(self, *best):
        super().__init__(3, noise=0.0)
        self.best, self.asked = best, 0

    def query(self, task, clients):
        self.asked += 1
        return [self.search(task, int(party)) for party in clients]

    def search(self, task, party):
        search = PartySearch(task, party, 10 * (party + 1))
        while (config := search.ask()) is not None:
            search.tell(abs(math.log10(config.client["lr"] / self.best[party])) / 4)
        return search.answer()


def tune(method, federation, over="mean"):
    objective = fh.Objective("accuracy", over=over, **({"tail": 0.5} if over == "tail" else {}))
    return fh.tune(federation, SPACE, method, rounds=4, total=4, cohort=3, objective=objective, seed=1)


def test_the_recommended_config_follows_what_the_objective_is_over():
    """Two parties are best off at lr 0.001, one at 10."""

    def found(over, **settings):
        method = fh.FLoRA(**{"configs": 20, "regressor": "gp", "diagnose": False, **settings})
        return tune(method, Parties(0.001, 0.001, 10.0), over).facts["flora"]

    def lr(facts):
        return math.log10(facts["config"]["client"]["lr"])

    mean, worst = found("mean"), found("worst")
    assert lr(mean) == pytest.approx(-3, abs=0.4)  # where two of three are
    assert lr(worst) == pytest.approx(-1, abs=0.4)  # halfway: (-3 + 1) / 2
    assert worst["surface"] == "mplm"
    assert lr(found("median")) == pytest.approx(-3, abs=0.4)
    # The worst half of three alike are two of them: as for the worst one, halfway is best.
    tail = found("tail")
    assert tail["surface"] == "plm (tail)"
    assert lr(tail) == pytest.approx(-1, abs=2.2)
    assert lr(found("worst", surface="auto")) == lr(worst)
    assert found("worst", surface="mplm")["config"] == worst["config"]
    told = found("worst", diagnose=True)["diagnostics"]
    assert (told["recommended"], told["why"]) == ("mplm", "the objective is over = 'worst'")


@pytest.mark.parametrize(
    ("settings", "over", "words"),
    [
        ({"surface": "sgm"}, "worst", "surface = 'aplm' puts"),
        ({"surface": "sgm+u"}, "trimmed", "surface = 'aplm' puts"),
        ({"surface": "mplm"}, "tail", "which is over = 'worst'"),
        ({"weighting": "size"}, "median", "weighting = 'size' has no effect"),
    ],
)
def test_surfaces_that_cannot_follow_the_objective_are_refused(settings, over, words):
    parties = Parties(0.01, 0.1, 1.0)
    with pytest.raises(InputError, match=words):
        tune(fh.FLoRA(configs=4, **settings), parties, over)
    assert parties.asked == 0


def test_alpha_and_spread_are_refused_where_nothing_goes_by_them():
    for surface in ("aplm", "mplm", "sgm"):
        with pytest.raises(InputError, match=r"alpha = 2 has no effect .* use surface = 'sgm\+u'"):
            fh.FLoRA(surface=surface, alpha=2.0)
    assert fh.FLoRA(surface="sgm+u", alpha=2.0).alpha == 2.0
    with pytest.raises(InputError, match="spread = false has no effect without best"):
        fh.FLoRA(spread=False)


@pytest.mark.parametrize("method", [fh.FLoRA(configs=2, local_rounds=3), fh.FTS(trials=1, local_rounds=3)])
def test_local_rounds_are_refused_with_learners(method):
    space = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})
    federation = fh.LearnerFederation(party_data(), BAYES, workers=0)
    with federation, pytest.raises(InputError, match="local_rounds = 3 has no effect with learners"):
        fh.tune(federation, space, method, rounds=1, cohort=3)


# Privacy


def test_noise_beyond_the_range_of_losses_is_refused():
    assert fh.FLoRA(privacy=fh.LocalPrivacy(epsilon=10.0)).sampler == "list"
    assert (fh.FLoRA().sampler, fh.FLoRA().regressor) == ("tpe", "forests")
    with pytest.raises(
        InputError, match=r"mean rank is 26.9 of 100 \(by chance 50\).* epsilon = 2.78 or more"
    ):
        fh.FLoRA(privacy=fh.LocalPrivacy(epsilon=2.0))
    fh.FLoRA(privacy=fh.LocalPrivacy(epsilon=2.78))  # 2 ln 4 = 2.77: a mean rank of a fifth
    with pytest.raises(InputError, match=r"scale 1.33 .* epsilon = 8 or more, or best = 1 or less"):
        fh.FLoRA(best=2, privacy=fh.LocalPrivacy(epsilon=6.0))
    with pytest.raises(InputError, match=r"scale 16 .* epsilon = 160 or more, or best = 2 or less"):
        fh.FLoRA(best=40, privacy=fh.LocalPrivacy(epsilon=10.0))
    with pytest.raises(InputError, match=r"scale 10 .* epsilon = 100 or more, or configs = 10 or less, or a"):
        fh.FLoRA(sampler="tpe", privacy=fh.LocalPrivacy(epsilon=10.0))
    with pytest.raises(InputError, match="surface = 'auto'"):
        fh.FLoRA(surface="auto", privacy=fh.LocalPrivacy(epsilon=10.0))


def test_private_parties_still_lead_to_what_suits_them():
    """Each sends one config near its own best: the geometric median of the three is the middle one's."""
    method = fh.FLoRA(configs=64, privacy=fh.LocalPrivacy(epsilon=40.0))
    result = tune(method, Parties(0.01, 0.1, 1.0))
    assert [party["pairs"] for party in result.facts["flora"]["parties"]] == [1, 1, 1]
    assert math.log10(result.best_config.client["lr"]) == pytest.approx(-1.0, abs=0.25)
    assert result.facts["flora"]["diagnostics"] is None
