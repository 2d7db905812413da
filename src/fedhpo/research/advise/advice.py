"""Advice for a study, and a check of it on a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedhpo.core.errors import InputError
from fedhpo.core.streams import stream
from fedhpo.methods.auto import RUNGS, SPREAD, Case, choose
from fedhpo.research.advise.pilot import Pilot, pilot_of_table, run_pilot
from fedhpo.research.advise.quality import (
    TOLERANCE,
    Noise,
    Quality,
    biased_regret,
    measure,
    predict,
    standard_error,
)
from fedhpo.research.advise.suitability import Suitability, suitability
from fedhpo.search.evaluator import Evaluator

if TYPE_CHECKING:
    from fedhpo.research.tables import CurveTable
    from fedhpo.study import Study

#: So often what is chosen must be as good as the best for noise to count as low.
WANTED = 0.9
_PROXY = (
    "Search on the proxy data, and train what is found once at the clients. Their own scores, with this "
    "privacy, say too little to choose by."
)
#: More clients than these are not looked for.
_MOST = 1_000_000


@dataclass(frozen=True)
class Untuned:
    """Your own config, trained as long as the pilot's configs: what one training without a search has.

    `behind` is how far it is behind the best of these (negative where it is ahead), with the standard error
    of drawing clients; `beats` the share of these that it beats.
    """

    score: float
    behind: float
    error: float
    beats: float

    def in_words(self) -> str:
        """Whether to tune at all."""
        said = (
            f"your own config is {abs(self.behind):.3f} ± {self.error:.3f} "
            f"{'behind' if self.behind >= 0 else 'ahead of'} the best of the pilot, and beats "
            f"{self.beats:.0%} of it"
        )
        if self.behind > 2 * self.error and self.behind > TOLERANCE:
            return f"Tune: {said}."
        return (
            f"Do you need to tune at all? After the pilot's rounds {said}. Try [budget] tuning = 'none' "
            "first: it is one training."
        )


def untuned_of(pilot: Pilot) -> Untuned | None:
    """How the user's own config did in a pilot; None where it was not trained."""
    if pilot.own is None:
        return None
    sign = 1 if pilot.objective.maximise else -1
    best = int(np.argmax(sign * pilot.means))
    weights = pilot.weights / pilot.weights.sum()
    score = float(pilot.own @ weights)
    gap = sign * (pilot.values[best] - pilot.own)
    behind = float(gap @ weights)
    spread = ((gap - behind) * weights * len(weights)).std(ddof=1) if len(weights) > 1 else 0.0
    beats = float((sign * (score - pilot.means) > 0).mean())
    return Untuned(score, behind, float(spread / math.sqrt(len(weights))), beats)


@dataclass(frozen=True)
class Advice:
    """What was found, and what follows from it."""

    source: str
    validation_clients: int
    asked_clients: int
    epsilon: float | None
    evaluations: int
    configs: int
    spread: float
    heterogeneity: float
    standard_error: float
    quality: Quality
    enough: int | None
    enough_available: bool
    biased_regret: float
    noisy: bool
    #: What `auto` would take, or "proxy"; the mechanism and the accounting to go with it, under privacy.
    method: str
    why: str
    mechanism: str | None = None
    accounting: str | None = None
    proxy: Suitability | None = None
    #: How your own config does beside the others, where it was trained, too.
    untuned: Untuned | None = None
    practices: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        return {**asdict(self), "proxy": None if self.proxy is None else self.proxy.to_dict()}


def advise(study: Study, *, table: CurveTable | None = None, workers: int | None = None) -> Advice:
    """Advice for a study: from a table of the like, or from a short pilot of a few of its configs."""
    evaluator, budget = study.evaluator, study.file.budget
    privacy = evaluator.privacy
    if privacy is not None and table is None:
        raise InputError(
            "privacy: a pilot reads scores of clients that no epsilon pays for: advise from a table of the "
            "like (--table), or leave out [evaluation.privacy] where the data is no secret"
        )
    pilot = pilot_of_table(table, study.objective) if table is not None else run_pilot(study, workers=workers)
    if privacy is not None:
        pilot = pilot.uniform()
    configs = max(2, (budget.total or 10 * budget.rounds) // budget.rounds)
    planned = (privacy.evaluations if privacy is not None else None) or configs
    return advice_of(
        pilot,
        evaluator,
        configs,
        evaluations=planned,
        seed=study.file.seed,
        has_proxy=study.file.proxy is not None,
        rounds=budget.rounds,
        proxy=None if table is not None else _suitability(study, pilot, workers),
    )


def _suitability(study: Study, pilot: Pilot, workers: int | None) -> Suitability | None:
    """What a pilot on the study's proxy data says, if it has some."""
    if study.proxy_study is None:
        return None
    there = run_pilot(study.proxy_study, rounds=pilot.round, workers=workers)
    return suitability(pilot, there, stream(study.file.seed, "proxy"))


def advice_of(
    pilot: Pilot,
    evaluator: Evaluator,
    configs: int,
    *,
    evaluations: int | None = None,
    seed: int = 0,
    has_proxy: bool = False,
    rounds: int = RUNGS,
    proxy: Suitability | None = None,
) -> Advice:
    """A pilot's odds of choosing the best of `configs` configs, of `rounds` each, under an evaluator."""
    privacy = evaluator.privacy
    epsilon = None if privacy is None else privacy.epsilon
    noise = Noise(
        evaluator.count(pilot.clients),
        pilot.clients,
        epsilon,
        evaluations or configs,
        evaluator.pairs(),
        privacy is not None and privacy.rotates,
    )
    quality = predict(pilot, noise, configs, stream(seed, "advise"))
    enough, available = enough_clients(pilot, noise, configs, seed)
    noisy = quality.near < WANTED
    case = Case(
        rounds,
        configs * rounds,
        noise.population,
        noise.clients,
        epsilon,
        rotates=epsilon is not None,
        spread=pilot.config_spread or SPREAD,
    )
    taken = choose(case)
    hopeless = case.too_noisy and not available
    by_proxy = hopeless and has_proxy and (proxy is None or proxy.suitable)
    advice = Advice(
        pilot.source,
        pilot.clients,
        noise.clients,
        epsilon,
        noise.evaluations,
        configs,
        pilot.spread,
        pilot.heterogeneity,
        standard_error(pilot, noise),
        quality,
        enough,
        available,
        biased_regret(pilot),
        noisy,
        "proxy" if by_proxy else taken.method.name,
        _PROXY if by_proxy else taken.why,
        taken.mechanism,
        None if epsilon is None else "rotation",
        proxy,
        untuned_of(pilot),
    )
    advice.practices.extend(_practices(advice, has_proxy))
    return advice


def _practices(advice: Advice, has_proxy: bool) -> list[str]:
    """The paper's four best practices, with this study's numbers."""
    q = advice.quality
    chance = (
        f"the config ranked first by one score each is within {TOLERANCE:g} of the best of {advice.configs} "
        f"with probability {q.near:.2f}"
    )
    if advice.noisy:
        simple = f"Do not choose by one score: {chance}, below {WANTED:g}. {advice.why}"
    else:
        simple = f"Any method will do: {chance}. {advice.why}"
    if advice.mechanism is not None:
        simple += (
            f" Set privacy.mechanism = {advice.mechanism!r} and privacy.accounting = {advice.accounting!r}: "
            "clients take turns, and each is charged only for the scores that it takes part in."
        )
    if advice.enough is None:
        sample = (
            f"No sample of up to {_MOST:,} clients would be enough: relax epsilon, or plan fewer evaluations."
        )
    elif advice.enough_available:
        asked = "enough" if advice.asked_clients >= advice.enough else "not enough"
        sample = f"Ask at least {advice.enough} validation clients; {advice.asked_clients} are {asked}."
    else:
        sample = (
            f"About {advice.enough:,} validation clients would be needed; there are "
            f"{advice.validation_clients:,}."
        )
    if advice.biased_regret > TOLERANCE:
        representative = (
            "Ask representative clients: if those with better scores replied more often (bias 3), the choice "
            f"would be worse by {advice.biased_regret:.3f}, however many were asked."
        )
    else:
        representative = (
            "Biased participation matters little here: even at bias 3 it costs "
            f"{advice.biased_regret:.3f}. Clients' spread: {advice.spread:.3f}."
        )
    if not advice.noisy and advice.proxy is None:
        proxy = "Proxy data is not needed: the clients' own scores are clear enough."
    elif advice.proxy is not None:
        proxy = advice.proxy.in_words()
    elif has_proxy:
        proxy = "The study has proxy data: a search there sees no noise, and one config reaches the clients."
    else:
        proxy = (
            "Consider proxy data: public data of the same kind of task, in [proxy], sees none of this noise."
        )
    untuned = [] if advice.untuned is None else [advice.untuned.in_words()]
    return [simple, sample, representative, proxy, *untuned]


def enough_clients(pilot: Pilot, noise: Noise, configs: int, seed: int) -> tuple[int | None, bool]:
    """The fewest clients with which selection is near the best often enough, and whether there are so many.

    Where all clients there are would not do, more of the same kind are imagined; None if a million would
    not do.
    """

    def good(clients: int) -> bool:
        population = max(pilot.clients, 20 * clients) if clients > pilot.clients else pilot.clients
        asked = replace(noise, clients=clients, population=population)
        return predict(pilot, asked, configs, stream(seed, "enough")).near >= WANTED

    low, high = 0, pilot.clients
    while not good(high):
        low, high = high, 2 * high
        if high > _MOST:
            return None, False
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if good(middle) else (middle, high)
    return high, high <= pilot.clients


def check_advice(
    table: CurveTable,
    clients: Sequence[int],
    *,
    configs: int = 16,
    epsilon: float | None = None,
    pilot: Pilot | None = None,
    paired: bool = True,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Predicted against measured selection quality on a table, for several numbers of clients.

    The prediction is that of `pilot`, by default all of the table; what is measured is always the table's.
    """
    whole = pilot_of_table(table)
    if epsilon is not None:
        whole = whole.uniform()
    rows = []
    for count in clients:
        noise = Noise(count, whole.clients, epsilon, configs, paired)
        predicted = predict(pilot or whole, noise, configs, stream(seed, "predicted", count))
        measured = measure(whole, noise, configs, stream(seed, "measured", count))
        rows.append({"clients": count, "predicted": asdict(predicted), "measured": asdict(measured)})
    return rows
