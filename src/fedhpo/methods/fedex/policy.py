"""FedEx (Khodak et al., 2021, Federated hyperparameter tuning: challenges, baselines, and connections to
weight-sharing, Algorithm 2), with the knobs that Nakka et al. (2023) found it to hang on, and the remedies
that they propose.

A trial has k arms, that is, client hyperparameters near its config's own, and a distribution theta over
them. In every round each member of the cohort trains with an arm drawn from theta. What the members'
validation scores say of the arms moves theta by exponentiated gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.claims import filled_in
from fedhpo.core.deprecation import warn_deprecated
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.core.streams import stream
from fedhpo.methods.fedex.arms import draw_arms
from fedhpo.methods.fedex.auto import AUTO
from fedhpo.methods.fedex.grid import GridState, grid_of
from fedhpo.methods.fedex.landmarks import Landmark
from fedhpo.methods.fedex.learned import LearnedPolicy
from fedhpo.methods.fedex.section import policies_of, policy_sections
from fedhpo.methods.fedex.settings import OF_THE_SEARCH, FedExSettings, as_dict, check
from fedhpo.methods.fedex.state import FedExState
from fedhpo.protocol.federation import AFTER, BEFORE, CLIENT_CONFIGS, SCORES_IN_ROUND
from fedhpo.space import Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.privacy.privacy import Privacy
    from fedhpo.search.search import Search


@dataclass(frozen=True)
class FedExPolicy(FedExSettings):
    """FedEx as a client policy. Arm 0 is the trial's own config.

    Parameters
    ----------
    arms, eps
        How many arms, and how far from the config they may be, as a share of each range; 1 for the
        whole space.
    steps
        The step rule: "constant", "adaptive", "aggressive" or "auto"; see `fedhpo.methods.fedex.steps`.
    gamma, baseline
        The discount of past rounds in the baseline, from 0 (only the last one) to 1 (all alike), and the
        first round's baseline: "zero", "pretrain" or "skip".
    metric, difference
        Whether clients score by "loss" or "error", after training or as the difference to before it.
    clip
        The largest loss that counts. A loss that is not finite always counts as the worst.
    shrink
        How many validation rows make a member's score count half: one with n of them counts n / (n + shrink).
        A score of three rows is mostly chance, whichever arm it speaks for.
    cutoff
        Below this entropy of the distribution (in nats) exploration ends: everybody gets the arm with most
        weight.
    until
        The share of a full training's rounds in which the policy learns; then, too, everybody gets the arm
        with most weight. What one round of an arm does to a model that is trained already speaks for small
        steps, however much training alone would need large ones: the short-horizon bias of Wu et al. (2018,
        Understanding short-horizon bias in stochastic meta-optimization). 1 learns to the end.
    explore
        The share of draws that is uniform over the arms, so that a gradient is at most arms / explore times
        a score (Auer et al., 2002, The nonstochastic multiarmed bandit problem). 0.1 is a sound value; "auto"
        is their share for as many draws as there were so far, which begins at 1 and falls with their root.
    entropy
        The strength of entropy regularisation, in units of the score: theta minimises the expected score
        less `entropy` times its entropy (Zhao, Sun and Tresp, 2019, Maximum entropy-regularized multi-goal
        reinforcement learning). 0.01 is a sound value for losses.
    eliminate
        Drop arms by confidence bounds, with this probability of dropping a best one (Even-Dar et al.,
        2006). 0.1 is a sound value, 0 drops none.
    landmarks, landmark_rounds
        Train this many arms alone first, for so many rounds each, out of the total, and keep the order of
        their weights (Yu et al., 2021). They are arms of every trial.
    start
        A `LearnedPolicy`, or the file where one is saved: its arms and weights are those of every trial
        at first, whatever the trial's own client hyperparameters.
    grid
        In place of arms, a distribution for each client hyperparameter: over so many values near the config's
        own, or over those that are listed by its name; see `fedhpo.methods.fedex.grid`.

    Examples
    --------
    >>> from fedhpo.space import Float
    >>> space = Space(client={"lr": Float(0.01, 1.0, log=True)})
    >>> state = FedExPolicy(arms=3).begin(space.default(), space, np.random.default_rng(0))
    >>> state.arms[0]
    {'lr': 0.1}
    >>> state.weights.tolist()
    [0.333..., 0.333..., 0.333...]
    """

    #: Found before the search began; see `prepare`.
    found: tuple[Landmark, ...] = filled_in(())
    #: The rounds of a full training, once they are known; see `prepare`.
    rounds: int | None = filled_in(None)

    def __post_init__(self) -> None:
        check_settings(self)
        check(self)
        _ = self._learned  # a file that cannot be read is an error here

    @classmethod
    def auto(cls, **settings: Any) -> FedExPolicy:
        """FedEx without knobs: see `fedhpo.methods.fedex.auto` for its choices.

        >>> FedExPolicy.auto(arms=9).arms
        9
        """
        return cls(**{**AUTO, **settings})

    @property
    def needs(self) -> frozenset[str]:
        """A config for each client, and scores inside a round."""
        return frozenset({CLIENT_CONFIGS, SCORES_IN_ROUND})

    @property
    def scores(self) -> tuple[str, ...]:
        """Before training, for the baseline and the learning curve, and after it."""
        return BEFORE, AFTER

    @cached_property
    def _learned(self) -> LearnedPolicy | None:
        return self.start if isinstance(self.start, LearnedPolicy | None) else LearnedPolicy.load(self.start)

    def begin(self, config: Config, space: Space, rng: np.random.Generator) -> FedExState | GridState:
        """The arms of a fresh trial, and a uniform distribution over them (or that of `start`)."""
        settings = self.tuned(config)
        if settings.grid is not None:
            values = grid_of(config, space, settings.grid, settings.eps, rng)
            return GridState(settings, config, values, settings.learns)
        if self._learned is not None:
            for arm in self._learned.arms:
                space.validate(config.replace(client=arm))
            return FedExState(settings, self._learned, self.found, settings.learns)
        given = [landmark.client for landmark in self.found]
        arms = draw_arms(config, space, settings.arms, settings.eps, rng, given)
        return FedExState(settings, LearnedPolicy.uniform(arms), self.found, settings.learns)

    def tuned(self, config: Config) -> FedExPolicy:
        """These settings with what the config's scope `policy` says otherwise.

        >>> FedExPolicy().tuned(Config(policy={"gamma": 0.5})).gamma
        0.5
        """
        known = [f.name for f in fields(FedExSettings) if f.name not in OF_THE_SEARCH]
        for name in config.policy:
            if name not in known:
                raise unknown_name("setting of fedex in space.policy", name, known)
        return replace(self, **config.policy)

    def check_private(self, space: Space, privacy: Privacy) -> None:
        """Refuse settings with which more than noisy sums by arm would be read, or sums without bound."""
        tuned = [name.removeprefix("policy.") for name in space.names if name.startswith("policy.")]
        for name in ("metric", "clip", "eliminate", "shrink"):
            if name in tuned:
                raise InputError(
                    f"privacy: policy.{name} cannot be tuned, because the score's range depends on it"
                )
        own = self.tuned(space.default())
        if own.grid is not None:
            raise InputError("privacy: grid would release sums for every hyperparameter; use arms instead")
        if own.metric == "loss" and own.clip is None:
            raise InputError("privacy: fedex with metric = 'loss' needs clip, the largest loss that counts")
        if own.eliminate:
            raise InputError(
                f"privacy: eliminate = {own.eliminate:g} reads how single scores spread, which is not "
                "released: it must be 0"
            )
        if own.shrink:
            raise InputError(
                f"privacy: shrink = {own.shrink:g} reads how many rows a client has, and all count the same: "
                "it must be 0"
            )
        if own.landmarks and not privacy.releases_values:
            raise InputError(
                f"privacy: landmarks = {own.landmarks} are ranked by scores, and mechanism = "
                f"{privacy.mechanism!r} releases none: use mechanism = 'laplace'"
            )

    @property
    def learns(self) -> int | None:
        """The rounds of a trial in which it learns; None for all of them."""
        if self.until == 1 or self.rounds is None:
            return None
        return max(1, round(self.until * self.rounds))

    # Before the search

    @property
    def rounds_before(self) -> int:
        """The rounds that landmarks take out of the total."""
        return self.landmarks * self.landmark_rounds

    def prepare(self, search: Search) -> FedExPolicy:
        """Note how long a full training is; train the landmarks, drawn around the user's own config (or from
        `start`), alone."""
        if not self.landmarks:
            return replace(self, rounds=search.rounds)
        config, rng = search.enqueued[0], stream(search.seed, "landmarks")
        if self._learned is not None:
            chosen = rng.permutation(len(self._learned.arms))[: self.landmarks]
            clients = [self._learned.arms[arm] for arm in sorted(chosen.tolist())]
        else:
            clients = draw_arms(config, search.space, 1 + self.landmarks, self.eps, rng)[1:]
        tried = search.try_out([config.replace(client=client) for client in clients], self.landmark_rounds)
        found = tuple(Landmark(t.config.client, t.rank_value) for t in tried)
        return replace(self, rounds=search.rounds, found=found)

    def sections(self, search: Search) -> list[Any]:
        """What it learned, for the report."""
        winner = None if search.winner is None else search.winner.number
        return policy_sections(policies_of(search.trials), winner)

    def to_dict(self) -> dict[str, Any]:
        """Its settings."""
        return {"name": "fedex", **as_dict(self)}


def __getattr__(name: str) -> Any:
    if name == "FedEx":
        warn_deprecated("fedhpo.methods.fedex.policy.FedEx", "fedhpo.methods.fedex.FedExPolicy", gone="0.5")
        return FedExPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
