"""BOHB's model: Eq. 3 worked by hand, in the paper's reading and in HpBandSter's."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm, truncnorm

import fedhpo as fh
from fedhpo.core.errors import InputError
from fedhpo.methods import BOHB as Method
from fedhpo.protocol.sampler import Observation
from fedhpo.samplers import BOHB, Random
from fedhpo.samplers._kde import KDE
from fedhpo.samplers.bohb import good_and_bad, least_scores
from fedhpo.search.search import Event
from fedhpo.space import Choice, Float, Space
from fedhpo.surrogates.cube import Cube
from fedhpo.testing import ToyFederation
from fedhpo.testing.sampler import PLANE, observed

LINE = Cube(Space(client={"x": Float(0, 1)}))
LISTED = Cube(Space(client={"kind": Choice(["a", "b", "c"])}))


def _sizes(count: int, dimensions: int, split: str) -> tuple[int, int, int]:
    """Good ones, bad ones, and how many are both."""
    ranks = range(count)
    good, bad = good_and_bad(count, dimensions, 0.15, split)
    return len(ranks[good]), len(ranks[bad]), len(set(ranks[good]) & set(ranks[bad]))


def test_the_papers_sets_worked_by_hand() -> None:
    # d = 5, so N_min = 6. N = 8: good max(6, 1.2), bad max(6, 8 - 6), which share 6 + 6 - 8 = 4.
    assert _sizes(8, 5, "paper") == (6, 6, 4)
    assert _sizes(12, 5, "paper") == (6, 6, 0)
    assert _sizes(30, 5, "paper") == (6, 24, 0)  # 15% of 30 are 4.5, fewer than 6
    assert _sizes(60, 5, "paper") == (9, 51, 0)
    assert good_and_bad(8, 5, 0.15)[1] == slice(2, 8)  # the worst ones


def test_hpbandsters_sets_worked_by_hand() -> None:
    # The good ones, then at most floor(0.85 N) that follow: of 60, 9 and 51; of 12, 6 and 6.
    assert _sizes(12, 5, "hpbandster") == (6, 6, 0)
    assert _sizes(30, 5, "hpbandster") == (6, 24, 0)
    assert _sizes(60, 5, "hpbandster") == (9, 51, 0)
    assert _sizes(61, 5, "hpbandster") == (9, 51, 0)  # floor(51.85): the very worst is left out
    assert _sizes(61, 5, "paper") == (9, 52, 0)


def _seen(count: int) -> list[Observation]:
    rng = np.random.default_rng(0)
    return [observed(n, PLANE.sample(rng), float(n)) for n in range(count)]


@pytest.mark.parametrize(("split", "least"), [("paper", 5), ("hpbandster", 6)])
def test_no_model_before_there_are_enough_scores(split: str, least: int) -> None:
    """The plane has d = 2: N_min + 2 = 5 in the paper, 2 (d + 1) = 6 in HpBandSter."""
    assert least_scores(2, split) == least
    sampler = BOHB(split=split, random_share=0.0)  # type: ignore[arg-type]
    for count, random in ((least - 1, True), (least, False)):
        seen = _seen(count)
        ours = [sampler.suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(5)]
        drawn = [Random().suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(5)]
        assert (ours == drawn) is random


def test_the_density_is_a_mean_of_normals_with_the_normal_reference_bandwidth() -> None:
    points = np.array([[0.2], [0.3], [0.7]])
    width = 1.06 * points.std() * 3 ** (-1 / 5)
    density = KDE(LINE, points)
    assert density.bandwidths == pytest.approx([width])
    at = np.array([[0.25], [0.9]])
    for factor in (1.0, 3.0):
        expected = norm.pdf(at, points[:, 0], width * factor).mean(axis=1)
        assert np.exp(density.log_density(at, factor)) == pytest.approx(expected)


def test_choices_have_aitchison_and_aitkens_kernel() -> None:
    # Two of "a", two of "b": two values differ with chance 1/2, so the variance is 1/4; n = 4, d = 1.
    points = np.array([[1 / 6], [1 / 6], [0.5], [0.5]])
    width = 1.06 * 0.5 * 4 ** (-1 / 5)
    density = KDE(LISTED, points)
    assert density.bandwidths == pytest.approx([width])
    found = np.exp(density.log_density(np.array([[1 / 6], [0.5], [5 / 6]])))
    near, far = 3 * (1 - width), 3 * width / 2
    assert found == pytest.approx([(near + far) / 2, (near + far) / 2, far])


def test_draws_are_normal_steps_three_times_as_wide_cut_off_at_the_ends() -> None:
    density = KDE(LINE, np.array([[0.1], [0.1 + 1e-9]]))
    assert density.bandwidths == pytest.approx([1e-3])
    wide = density.draw(4000, 300.0, np.random.default_rng(0))[:, 0]
    assert kstest(wide, truncnorm(-0.1 / 0.3, 0.9 / 0.3, 0.1, 0.3).cdf).pvalue > 0.01


def test_the_suggestion_has_the_largest_ratio_of_the_two_densities() -> None:
    """Five scores on a line, d = 1: the 2 best make the good density, the 3 others the bad one."""
    space = LINE.space
    seen = [observed(n, space.from_unit([x]), float(n)) for n, x in enumerate((0.30, 0.40, 0.1, 0.8, 0.9))]
    pool = [space.from_unit([x]) for x in np.linspace(0.02, 0.98, 49)]
    good, bad = np.array([0.3, 0.4]), np.array([0.1, 0.8, 0.9])
    widths = [1.06 * part.std() * len(part) ** (-1 / 5) for part in (good, bad)]

    def ratio(x: float) -> float:
        parts = zip((good, bad), widths, strict=True)
        better, worse = (float(norm.pdf(x, part, width).mean()) for part, width in parts)
        return better / worse

    best = max(pool, key=lambda config: ratio(config.client["x"]))
    many = BOHB(candidates=5000, random_share=0.0)
    assert many.suggest(space, seen, [], np.random.default_rng(0), pool) == best
    free = many.suggest(space, seen, [], np.random.default_rng(0))
    assert free is not None
    assert abs(free.client["x"] - best.client["x"]) < 0.02


def test_a_third_is_random() -> None:
    seen = _seen(20)
    model = [BOHB(random_share=0.0).suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(200)]
    mixed = [BOHB().suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(200)]
    chance = [BOHB(random_share=1.0).suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(200)]
    random = sum(m == c for m, c in zip(mixed, chance, strict=True))
    assert 47 <= random <= 87  # 200 / 3, three standard deviations
    assert model != mixed


def _calls(repeatable: bool, **settings: object) -> tuple[list[tuple[str, int]], dict[str, object]]:
    """What a run of two brackets did: kinds of events, and how many trials each had."""
    calls = []

    def note(event: Event) -> None:
        if event.kind in ("start", "evaluate"):
            calls.append((event.kind, len(event.trials)))

    space = fh.Space(client={"lr": fh.Float(1e-3, 10.0, log=True)})
    federation = ToyFederation(clients=6, repeatable=repeatable)
    method = Method(**settings)  # type: ignore[arg-type]
    result = fh.tune(federation, space, method, rounds=9, total=21, cohort=2, callbacks=[note])
    assert result.cost["rounds"] == 21
    return calls, result.facts["bohb"]


def test_configs_of_a_bracket_are_drawn_one_by_one_each_scored_before_the_next() -> None:
    calls, said = _calls(True)
    assert calls[:18] == [("start", 1), ("evaluate", 1)] * 9
    assert calls[18:20] == [("evaluate", 3), ("evaluate", 1)]
    assert said["side_by_side"] == 1


def test_with_real_clients_a_bracket_is_drawn_at_once_and_the_run_says_so() -> None:
    calls, said = _calls(False)
    assert calls[:2] == [("start", 9), ("evaluate", 9)]
    assert said["side_by_side"] is None
    assert "all configs of a bracket were drawn at once" in str(said["in_words"])
    assert _calls(False, side_by_side=4)[0][:6:2] == [("start", 4), ("start", 4), ("start", 1)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"split": "mine"}, "unknown split 'mine'"),
        ({"good_share": 0.0}, r"good_share must be a share in \(0, 1\), not 0.0"),
        ({"candidates": 0}, "candidates must be at least 1, not 0"),
        ({"random_share": -1.0}, r"random_share must be a share in \[0, 1\], not -1.0"),
        ({"bandwidth_factor": 0.0}, "bandwidth_factor must be above 0, not 0.0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        BOHB(**settings)  # type: ignore[arg-type]


def test_failures_are_bad() -> None:
    rng = np.random.default_rng(1)
    configs = [PLANE.sample(rng) for _ in range(40)]
    seen = [observed(n, c, math.inf if c.client["a"] > 0.5 else 1.0 + n) for n, c in enumerate(configs)]
    found = [BOHB(random_share=0.0).suggest(PLANE, seen, [], np.random.default_rng(n)) for n in range(40)]
    assert np.mean([c.client["a"] < 0.5 for c in found if c]) > 0.85
