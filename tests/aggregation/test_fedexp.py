"""FedExP: by hand, against the authors' loop written out in NumPy, and where it cannot be."""

import numpy as np
import pytest

import fedhpo as fh
from fedhpo.aggregation.server import HALF_STEP, FedExP, Lengths, server_optimiser
from fedhpo.core.errors import InputError
from fedhpo.protocol.federation import Work
from fedhpo.study import Study

SIZES = (4, 9, 20)
LR = 0.4


def test_the_rate_by_hand():
    """Updates (3, 0) and (0, 3) of one weight: squared norms 9 and 9, mean (1.5, 1.5) of squared norm 4.5."""
    mean = np.array([1.5, 1.5], np.float32)
    assert FedExP(epsilon=0.0).rate(mean, 0, Lengths(9.0, 2)) == pytest.approx(1.0)  # 9 / 9
    assert FedExP(epsilon=0.0).rate(mean, 0, Lengths(18.0, 2)) == pytest.approx(2.0)
    assert FedExP(epsilon=0.0).rate(mean, 0, Lengths(4.5, 2)) == 1.0  # equal updates: never below 1
    # Two updates, epsilon 0.5 that is halved twice by the second round: 2 x 0.125 beside 4.5.
    small = FedExP(epsilon=0.5, epsilon_decay=0.5).rate(mean, 1, Lengths(95.0, 2))
    assert small == pytest.approx(95 / (2 * (4.5 + 0.25)))
    assert FedExP(epsilon=0.0).rate(np.zeros(2, np.float32), 0, Lengths(0.0, 2)) == 1.0


def test_it_has_no_rate_to_set():
    with pytest.raises(InputError, match=r"unknown server hyperparameter 'lr'.*epsilon"):
        server_optimiser("fedexp", {"lr": 1.0})
    with pytest.raises(InputError, match=r"server\.epsilon must be a number"):
        FedExP(epsilon=-1.0)


@pytest.fixture(scope="module")
def clients():
    rng = np.random.default_rng(0)
    return [{"train": (rng.normal(size=(n, 5)).astype(np.float32), rng.integers(0, 3, n))} for n in SIZES]


def gradient(weights, x, y):
    """Of the cross-entropy of a linear model, in double precision; its first 15 numbers are the matrix."""
    matrix, bias = weights[:15].reshape(3, 5), weights[15:]
    scores = x @ matrix.T + bias
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    off = (shares - np.eye(3)[y]) / len(y)
    return np.concatenate([(off.T @ x).ravel(), off.sum(0)])


def plain(weights, clients, rounds, clip=np.inf, sizes=SIZES, epsilon=1e-3):
    """The authors' loop: models after each round, and the models that are evaluated."""
    models, evaluated, rates = [weights], [], []
    shares = np.array(sizes) / sum(sizes)
    for _ in range(rounds):
        epsilon *= 0.996
        steps = [
            -LR
            * gradient(
                models[-1], *(np.asarray(p, np.float64 if i == 0 else int) for i, p in enumerate(c["train"]))
            )
            for c in clients
        ]
        steps = [step * min(1.0, clip / np.linalg.norm(step)) for step in steps]
        mean = sum(share * step for share, step in zip(shares, steps, strict=True))
        squared = sum(share * step @ step for share, step in zip(shares, steps, strict=True))
        rates.append(max(1.0, 0.5 * squared / (mean @ mean + len(clients) * epsilon)))
        models.append(models[-1] + rates[-1] * mean)
        evaluated.append(models[-1] if len(models) == 2 else (models[-1] + models[-2]) / 2)
    return models, evaluated, rates


def vector(module):
    return np.concatenate([module.weight.detach().numpy().ravel(), module.bias.detach().numpy()])


@pytest.mark.parametrize(
    ("options", "theirs"),
    [
        ({}, {}),
        ({"clip_norm": 0.1}, {"clip": 0.1, "sizes": (4, 9, 18)}),
        ({"weighting": "uniform"}, {"sizes": (1, 1, 1)}),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_rounds_equal_the_authors_loop(clients, options, theirs, workers):
    from torch import nn

    data = fh.from_clients(clients, classes=3)
    work = Work(0, [0, 1, 2], {"lr": LR, "batch_size": 50}, {"optimiser": "fedexp"})
    with fh.simulate(lambda: nn.Linear(5, 3), data, workers=workers, **options) as federation:
        federation.start(0, {}, seed=5)
        first = federation.state(0).arrays["weights"].astype(np.float64)
        models, evaluated, rates = plain(first, clients, 4, **theirs)
        for number in range(4):
            federation.round([work])
            state = federation.state(0).arrays
            np.testing.assert_allclose(state["weights"], models[number + 1], atol=2e-6)
            np.testing.assert_allclose(vector(federation.model(0)), evaluated[number], atol=2e-6)
    assert max(rates) > 1.05 or "clip_norm" in options  # FedAvg would not do
    assert HALF_STEP in {name.removeprefix("server.") for name in state}


def test_scores_are_those_of_the_mean_of_the_last_two_models():
    data = fh.load("digits", clients=4, seed=0)
    with fh.simulate("mlp", data, workers=0, server="fedexp") as federation:
        federation.start(0, {}, seed=1)
        federation.start(1, {}, seed=1)
        vectors = []
        for _ in range(3):
            federation.round([Work(0, [0, 1, 2, 3], {"lr": 0.1})])
            vectors.append(federation.state(0).arrays["weights"])
        state = federation.state(1)
        mean = {**state.arrays, "weights": (vectors[-1] + vectors[-2]) / 2}
        federation.restore(1, type(state)(mean, state.facts))
        [theirs, ours] = federation.evaluate([0, 1], range(4))
        np.testing.assert_allclose(theirs.loss, ours.loss, rtol=1e-5)
        # A trial that comes back from its saved state goes on, and is scored, in the same way.
        federation.restore(1, federation.state(0))
        [again] = federation.evaluate([1], range(4))
        assert again.loss.tobytes() == theirs.loss.tobytes()


def digits(**sections):
    return {
        "data": {"name": "digits", "clients": 5},
        "model": {"name": "mlp"},
        "space": {"client": {"lr": {"low": 0.01, "high": 0.3, "log": True}}},
        "method": {"name": "random"},
        "budget": {"rounds": 3, "total": 6, "cohort": 3},
        "server": {"optimiser": "fedexp"},
        **sections,
    }


def test_a_study_file_names_it():
    with_it = Study.from_dict(digits()).tune(workers=0)
    without = Study.from_dict(digits(server={})).tune(workers=0)
    assert with_it.best_score != without.best_score


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"server": {"optimiser": "fedexp", "aggregation": "median"}}, "hostile client could set it"),
        ({"space": {"client": {"lr": 0.1}, "server": {"lr": {"low": 0.1, "high": 1.0}}}}, "of fedexp"),
        ({"server": {"optimiser": "fedexp", "strategy": "Krum"}}, "server.optimiser"),
        ({"model": {"name": "svm"}, "space": {}}, "server.optimiser"),
    ],
)
def test_it_is_refused_where_it_cannot_be(sections, said):
    with pytest.raises(InputError, match=said):
        Study.from_dict(digits(**sections)).tune(workers=0)


def test_a_config_that_names_it_is_refused_beside_a_robust_rule():
    with pytest.raises(InputError, match="write aggregation = 'mean'"):
        fh.simulate("mlp", fh.load("digits", clients=3), server="fedexp", aggregation="trimmed_mean")


def test_over_flower_the_default_rule_is_refused_and_the_mean_gives_the_same_bits():
    pytest.importorskip("flwr")
    from flwr.clientapp import ClientApp

    from fedhpo.flower import InProcessGrid, client
    from fedhpo.flower.server_app import federation_of

    study = Study.from_dict(
        digits(server={"optimiser": "fedexp", "aggregation": "mean", "weight_cap": 100.0})
    )
    app = client(ClientApp(), study=study)
    with fh.simulate("mlp", study.load_data(), workers=0, stacking=False, server="fedexp") as simulated:
        ours = study.tune(federation=simulated)
    theirs = study.tune(federation=federation_of(InProcessGrid(app, 5), study, repeatable=True))
    assert ours.best_score == theirs.best_score
    for here, there in zip(ours.model.parameters(), theirs.model.parameters(), strict=True):
        assert here.detach().numpy().tobytes() == there.detach().numpy().tobytes()
    bare = Study.from_dict(digits())
    with pytest.raises(InputError, match="in spite of aggregation = 'agreement_filter'"):
        federation_of(InProcessGrid(app, 5), bare, repeatable=True)
