"""Local search: what a party does and sends, at learners and at torch models, and what it keeps private."""

import json
import math
import os
import signal
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.core.streams import derive
from fedhpo.data import from_clients
from fedhpo.learners import cross_validated_loss, learner_of
from fedhpo.protocol.federation import Status
from fedhpo.queries.local_search import LocalSearch, PartySearch
from fedhpo.queries.pairs import PartyPairs
from fedhpo.queries.side_by_side import Outcome, side_by_side
from fedhpo.samplers import TPE, Random
from fedhpo.space.config import Config
from fedhpo.testing.parties import BAYES, party_data, party_rows

SPACE = fh.Space(client={"var_smoothing": fh.Float(1e-9, 1.0, log=True)})


def search(federation, **options):
    query = LocalSearch(SPACE, **{"configs": 4, "folds": 2, **options})
    return query, federation.query(query, federation.train_clients)


@pytest.fixture(scope="module")
def inline():
    with fh.LearnerFederation(party_data(), BAYES, workers=0) as federation:
        yield federation


def test_a_party_sends_its_pairs_and_its_size_and_nothing_else(inline):
    _, answers = search(inline)
    for party, answer in enumerate(answers):
        assert set(answer.content) == {"configs", "losses", "size"}
        assert answer.content["size"] == inline._data.train.sizes[party] == 48
        assert len(answer.content["configs"]) == len(answer.content["losses"]) == 4
        for config, loss in zip(answer.content["configs"], answer.content["losses"], strict=True):
            assert SPACE.contains(Config.from_dict(config))
            assert 0 <= loss <= 1
        assert answer.cost.bytes_up == len(json.dumps(answer.content, separators=(",", ":"), sort_keys=True))


def test_losses_are_those_of_cross_validation_on_the_partys_training_rows(inline):
    query, answers = search(inline)
    x, y = inline._bench.rows([1])
    pairs = PartyPairs.from_dict(1, answers[1].content)
    seed = derive(query.seed, "folds", 1) % 2**32
    expected = [cross_validated_loss(learner_of(BAYES), c, x, y, folds=2, seed=seed) for c in pairs.configs]
    np.testing.assert_allclose(pairs.losses, expected, atol=1e-12)
    assert pairs.configs[0] == SPACE.default()


def test_only_the_best_pairs_are_sent_where_fewer_are_wanted(inline):
    _, all_of_them = search(inline)
    _, fewer = search(inline, best=2)
    for whole, some in zip(all_of_them, fewer, strict=True):
        assert some.content["losses"] == sorted(whole.content["losses"])[:2]
        assert some.cost.bytes_up < whole.cost.bytes_up


def test_results_do_not_depend_on_the_workers_and_survive_one_that_dies(inline):
    _, expected = search(inline, configs=6)
    with fh.LearnerFederation(party_data(), BAYES, workers=2) as federation:
        os.kill(federation._started.pids[0], signal.SIGKILL)
        _, answers = search(federation, configs=6)
        before = federation.pids
        assert {a.status for a in search(federation, configs=1000, deadline=1e-9)[1]} == {Status.MISSING}
        assert not set(federation.pids) & set(before)  # what they were at had to be ended
    assert [a.content for a in answers] == [a.content for a in expected]


def test_parties_search_by_themselves(inline):
    """No party's configs follow from another's: alone it sends the same."""
    query, answers = search(inline, configs=5)
    assert inline.query(query, [2])[0].content == answers[2].content


def test_a_party_that_cannot_search_is_left_out_and_says_why():
    x, y = party_rows(40, 0)
    three = from_clients([(x, y), (x, np.ones_like(y)), (x, y)], validation=0.0, test=0.0)
    with fh.LearnerFederation(three, BAYES, workers=0) as federation:
        _, answers = search(federation)
        assert [a.status for a in answers] == [Status.OK, Status.FAILED, Status.OK]
        assert "same label" in answers[1].reason.text
        bad = LocalSearch(fh.Space(client={"var_smoothing": fh.Float(-2.0, -1.0)}), configs=2, folds=2)
        [answer] = federation.query(bad, [0])
        assert answer.status == Status.FAILED
        assert "no config could be trained" in answer.reason.text
        assert "var_smoothing" in answer.reason.text


def test_what_it_cost_does_not_tell_how_rare_a_class_is():
    x, y = party_rows(40, 0)
    rare = np.where(np.arange(40) < 3, 1, 0)
    two = from_clients([(x, y), (x, rare)], validation=0.0, test=0.0)
    with fh.LearnerFederation(two, BAYES, workers=0) as federation:
        _, answers = search(federation, folds=5)
        assert federation.query(LocalSearch(SPACE, configs=1), [1])[0].status == Status.OK
    assert answers[0].cost.samples == answers[1].cost.samples == 4 * 40 * 4


class Slow:
    """Trains at once, but for one party, which never ends; a clock that ticks with every result."""

    def __init__(self, never):
        self.never, self.now, self.waiting, self.abandoned = never, 0.0, [], False

    def submit(self, party, config):
        if party != self.never:
            self.waiting.append((party, config.client["var_smoothing"]))

    def next(self, seconds):
        self.now += 1.0
        if not self.waiting:
            return None
        party, loss = self.waiting.pop(0)
        return Outcome(party, loss)

    def abandon(self):
        self.abandoned = True


def test_a_party_that_is_late_is_left_out_and_said_to_be():
    trainer = Slow(never=1)
    query = LocalSearch(SPACE, configs=4, deadline=60.0)
    searches = {party: PartySearch(query, party, 10) for party in range(3)}
    answers = side_by_side(query, searches, trainer, clock=lambda: trainer.now)
    assert [answers[party].status for party in range(3)] == [Status.OK, Status.MISSING, Status.OK]
    assert answers[1].reason.text == "late: 0 of 4 configs tried in 60 s"
    assert answers[1].content is None
    assert trainer.abandoned


class Stopped(Slow):
    """Is interrupted after so many results; counts what was submitted."""

    def __init__(self, after):
        super().__init__(never=None)
        self.after, self.submitted = after, 0

    def submit(self, party, config):
        self.submitted += 1
        super().submit(party, config)

    def next(self, seconds):
        if self.after == 0:
            raise KeyboardInterrupt
        self.after -= 1
        party, loss = self.waiting.pop(0)
        return Outcome(party, None if loss > 0.1 else loss, "too smooth" if loss > 0.1 else "", 7)


@pytest.mark.parametrize("after", [0, 1, 5, 11])
def test_a_search_goes_on_where_it_was_stopped(tmp_path, after):
    query = LocalSearch(SPACE, configs=4, journal=tmp_path / "tried.jsonl")

    def run(trainer, query=query):
        return side_by_side(query, {p: PartySearch(query, p, 10 + p) for p in range(3)}, trainer)

    with pytest.raises(KeyboardInterrupt):
        run(Stopped(after))
    rest, nothing = Stopped(-1), Stopped(0)
    whole = run(Stopped(-1), replace(query, journal=None))
    assert run(rest) == whole
    assert rest.submitted == 12 - after
    assert run(nothing) == whole
    assert nothing.submitted == 0
    with pytest.raises(InputError, match="other settings"):
        run(rest, replace(query, seed=1))


def test_losses_are_not_kept_in_clear_beside_private_ones(tmp_path):
    path = tmp_path / "tried.jsonl"
    query = LocalSearch(SPACE, configs=4, privacy=fh.LocalPrivacy(4.0), journal=path)
    side_by_side(query, {0: PartySearch(query, 0, 10)}, Stopped(-1))
    assert not path.exists()


def test_work_of_a_late_party_is_dropped(inline):
    _, answers = search(inline, configs=1000, deadline=1e-9)
    assert {a.status for a in answers} == {Status.MISSING}
    assert not inline._started._waiting
    assert {a.status for a in search(inline)[1]} == {Status.OK}


@dataclass(frozen=True)
class Spy:
    """TPE that notes the losses which it is shown."""

    shown: list = field(default_factory=list)

    def suggest(self, space, observations, asked, rng, pool=None):
        self.shown[:] = [seen.score.value for seen in observations]
        return TPE().suggest(space, observations, asked, rng, pool)

    def limit(self, space):
        return None


def told(privacy, losses, spy):
    query = LocalSearch(SPACE, configs=len(losses), sampler=spy, privacy=privacy)
    party = PartySearch(query, 0, 50)
    for loss in losses:
        party.ask()
        party.tell(loss)
    return party


def test_noise_is_there_before_the_sampler_sees_a_loss():
    losses = [0.5] * 10
    spy = Spy()
    party = told(fh.LocalPrivacy(epsilon=20.0), losses, spy)
    sent = party.answer().content["losses"]
    assert spy.shown == sent[:9]
    assert len(set(sent)) == 10
    # Laplace of scale T / epsilon = 0.5: the mean distance from the true loss is the scale.
    many = told(fh.LocalPrivacy(epsilon=800.0), [0.5] * 400, Random()).answer().content["losses"]
    assert np.mean(np.abs(np.array(many) - 0.5)) == pytest.approx(0.5, rel=0.15)


def test_losses_are_cut_to_their_range_and_failures_told_as_the_worst():
    """Where a loss had no bounds, one record could move it without end."""
    strong = fh.LocalPrivacy(epsilon=1e9)
    sent = told(strong, [7.0, None, -3.0], Spy()).answer().content["losses"]
    np.testing.assert_allclose(sent, [1.0, 1.0, 0.0], atol=1e-6)


def test_what_is_protected_is_stated():
    with pytest.raises(InputError, match="needs unit = 'record'"):
        fh.LocalPrivacy(epsilon=1.0, sensitivity=0.1)
    facts = fh.LocalPrivacy(epsilon=1.0, unit="record", sensitivity=0.1).to_dict(configs=100)
    assert (facts["unit"], facts["sensitivity"], facts["sensitivity_is"]) == (
        "record",
        0.1,
        "stated by the user",
    )
    assert facts["scale"] == pytest.approx(10.0)
    for wrong in ({"epsilon": 0.0}, {"epsilon": math.inf}, {"epsilon": 1.0, "unit": "row"}):
        with pytest.raises(InputError):
            fh.LocalPrivacy(**wrong)


def test_exact_noise_is_of_the_same_scale():
    pytest.importorskip("opendp")
    exact = fh.LocalPrivacy(epsilon=100.0, release="exact")
    sent = told(exact, [0.5] * 100, Random()).answer().content["losses"]
    # 100 draws of Laplace(1): the mean distance is 1, with a standard error of 0.1.
    assert 0.5 < np.mean(np.abs(np.array(sent) - 0.5)) < 1.5


@pytest.mark.parametrize("folds", [None, 2])
def test_clients_of_a_torch_model_search_too(folds):
    space = fh.Space(client={"lr": fh.Float(1e-4, 1.0, log=True), "batch_size": 8})
    with fh.simulate("linear", party_data(validation=0.25), workers=0) as federation:
        query = LocalSearch(space, configs=6, folds=folds, rounds=3, seed=1)
        answers = federation.query(query, federation.train_clients)
        assert federation.query(query, [1])[0].content == answers[1].content
        assert not federation.trials
    for answer in answers:
        assert set(answer.content) == {"configs", "losses", "size"}
        pairs = PartyPairs.from_dict(answer.client, answer.content)
        assert pairs.size == 39
        assert min(pairs.losses) < 0.4
        trained = 39 * 6 * 3 * (1 if folds is None else folds - 1)
        assert answer.cost.samples == trained


def test_a_torch_client_alone_is_a_federation_of_one():
    """The loss that it sends is that of three rounds of one client, from the same weights."""
    space = fh.Space(client={"lr": fh.Float(1e-4, 1.0, log=True)})
    own = party_data(parties=1, validation=0.25)
    with fh.simulate("linear", own, workers=0) as federation:
        [answer] = federation.query(LocalSearch(space, configs=1, rounds=3, seed=5), [0])
        federation.start(0, {}, derive(5, "local model"))
        for _ in range(3):
            federation.round([fh.Work(0, [0], space.default().client)])
        [scores] = federation.evaluate([0], [0])
    assert answer.content["losses"] == [1 - scores.accuracy[0]]


def test_what_cannot_be_is_refused(inline):
    for wrong in ({"configs": 0}, {"best": 7}, {"folds": 1}, {"deadline": 0.0}, {"rounds": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            LocalSearch(SPACE, **{"configs": 6, **wrong})
    with pytest.raises(InputError, match="local search sees"):
        LocalSearch(fh.Space(client={"lr": 0.1}))
    with pytest.raises(InputError, match="did you mean 'roc_auc'"):
        search(inline, scoring="roc_acu")
    with pytest.raises(InputError, match="local_search"):
        inline.query(fh.FineTune(0, {}), [0])
