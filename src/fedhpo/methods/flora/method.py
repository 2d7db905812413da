"""FLoRA: one federated training, with the config that the parties' own searches recommend.

"Single-shot general hyper-parameter optimization for federated learning" (Zhou et al., 2023), Algorithm 1.
Each party searches over its own rows and sends (config, loss) pairs (lines 2 to 5); a loss surface is made of
them (line 6); the config of lowest predicted loss (line 7, Eq. 2.7) is trained once (line 8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedhpo import samplers
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.settings import check_settings
from fedhpo.core.streams import derive
from fedhpo.methods.flora.answers import checked, in_result, loss_in_words
from fedhpo.methods.flora.guided import Guided, local_space
from fedhpo.methods.flora.section import party_sections
from fedhpo.methods.local_training import check_local_rounds
from fedhpo.policies import Fixed
from fedhpo.privacy.local import LocalPrivacy
from fedhpo.protocol.federation import QUERY, Federation, Status
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import local_scoring
from fedhpo.protocol.reasons import Why
from fedhpo.protocol.sampler import Sampler
from fedhpo.queries.local_search import LocalSearch
from fedhpo.queries.pairs import PartyPairs
from fedhpo.search.paired import LEAST, TRIM
from fedhpo.space import Float, Space
from fedhpo.space.config import Config

if TYPE_CHECKING:
    from fedhpo.methods.flora.surfaces import Surface
    from fedhpo.search.search import Search
    from fedhpo.search.trial import Trial

#: TPE has one density for each hyperparameter, as in the paper.
SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "tpe": partial(samplers.TPE, multivariate=False),
    "random": samplers.Random,
    "gp": samplers.GP,
}
#: Every party tries the same public list: with privacy, nothing that it tries follows from its losses.
LIST = "list"
#: The surface that the diagnostics recommend.
AUTO = "auto"
#: What simulated parties have tried, in the run's directory until they have answered.
JOURNAL = "local-search.jsonl"


@dataclass(frozen=True)
class FLoRA(Method):
    """FLoRA: every party tunes on its own rows, then one training with what suits them all.

    `configs` are tried by each party (T), of which it sends all or `best` many (T'): the better half of these
    are its best, the others are spread over all its losses; with `spread = false` all are its best, as in
    the paper. How it searches is up to `sampler` ("tpe" by default), `folds`, `local_rounds` (as long as the
    federated training by default), `deadline`, `privacy` and `try_default`: see `fedhpo.LocalSearch`. At
    least `minimum` parties must answer. Parties search by the metric of the objective, as all that follows
    does; of learners that is balanced accuracy, the paper's, unless the objective says otherwise.

    `surface` is "aplm" (the parties' own models, put together by the objective's `over`: by default their
    mean), "mplm" (their maximum, for parties that differ much), "sgm" (one model of all pairs), "sgm+u" (with
    `alpha` times its uncertainty), or "auto"; `regressor` is "forests" (three forests averaged, so that a
    seed moves the choice less), "forest" (one, the paper's), "gp", or "cones" (for a few good pairs); with
    `weighting = "size"` larger parties count more.

    With `privacy` every party tries the same public list of configs (`sampler = "list"`) and sends `best` of
    them (1 by default) by a private choice, with noisy losses where these are several; `regressor` is then
    "cones". With another sampler, such as "tpe", every loss gets noise before the sampler sees it: that takes
    few configs.

    Where trials are compared without the clients at either end (over Flower and NVFlare, unless
    `evaluation.choice = "mean"`), "aplm" leaves out the eighth of the parties at either end of their
    predictions too, from 8 parties on.

    `refine` adds so many further trainings, which also tune the server's hyperparameters: local searches
    cannot see these, and train once with their defaults. `diagnose = false` leaves out what is said of
    parties and surfaces beside the config, which takes long for many parties. Trial 0, your own config, is
    not trained unless `baseline` asks for it.
    """

    configs: int = 100
    best: int | None = None
    surface: Literal["sgm", "sgm+u", "mplm", "aplm", "auto"] = "aplm"
    alpha: float = 1.0
    regressor: Literal["forests", "forest", "gp", "cones"] | None = None
    weighting: Literal["uniform", "size"] = "uniform"
    sampler: Literal["tpe", "random", "gp", "list"] | None = None
    folds: int | None = None
    local_rounds: int | None = None
    deadline: float | None = None
    minimum: int = 1
    privacy: LocalPrivacy | None = None
    refine: int = 0
    try_default: bool = True
    diagnose: bool = True
    spread: bool = True

    name: ClassVar[str] = "flora"
    number: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_settings(self)
        private = self.privacy is not None
        if self.sampler is None:
            object.__setattr__(self, "sampler", LIST if private else "tpe")
        if self.regressor is None:
            object.__setattr__(self, "regressor", "cones" if self.chosen is not None else "forests")
        from fedhpo.methods.flora.surfaces import SURFACES, WEIGHTINGS
        from fedhpo.surrogates.regressors import REGRESSORS

        for name, known in (
            ("surface", (*SURFACES, AUTO)),
            ("regressor", tuple(REGRESSORS)),
            ("weighting", WEIGHTINGS),
            ("sampler", (*SAMPLERS, LIST)),
        ):
            if getattr(self, name) not in known:
                raise unknown_name(name, getattr(self, name), known)
        if self.surface == "mplm" and self.weighting != "uniform":
            raise InputError(f"weighting = {self.weighting!r} does not go with surface = 'mplm', a maximum")
        if not self.alpha > 0:
            raise InputError(
                f"alpha must be above 0, not {self.alpha!r}; surface = 'sgm' is without uncertainty"
            )
        if self.alpha != 1 and self.surface not in ("sgm+u", AUTO):
            raise InputError(
                f"alpha = {self.alpha:g} has no effect with surface = {self.surface!r}: only 'sgm+u' (and "
                "'auto', which may take it) counts uncertainty; leave alpha out, or use surface = 'sgm+u'"
            )
        if not self.spread and self.best is None:
            raise InputError("spread = false has no effect without best: all pairs are sent; leave it out")
        if self.chosen is not None and self.surface == AUTO:
            raise InputError(
                f"surface = 'auto' compares surfaces by the parties' pairs, and with privacy each party "
                f"sends only {self.chosen}: name a surface, such as 'aplm'"
            )
        for name, least in (("minimum", 1), ("refine", 0)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be at least {least}, not {getattr(self, name)}")
        self._check_pairs(1)
        self._query(_ANY, 1, 0, "accuracy")  # refuses the other settings
        super().__post_init__()

    @property
    def chosen(self) -> int | None:
        """How many pairs a party sends by a private choice from the list; None without one."""
        return (self.best or 1) if self.privacy is not None and self.sampler == LIST else None

    def _check_pairs(self, parties: int) -> None:
        """Refuse, before anybody searches, more pairs than a Gaussian process of the surface takes."""
        from fedhpo.surrogates.regressors import MOST_OF_A_PROCESS

        sent = self.chosen or self.best or self.configs
        pairs = sent * parties if self.surface.startswith("sgm") else sent
        if self.regressor == "gp" and pairs > MOST_OF_A_PROCESS:
            raise InputError(
                f"regressor = 'gp' takes at most {MOST_OF_A_PROCESS} pairs, and {pairs} would be sent "
                f"({sent} by each party{f', {parties} parties' if pairs > sent else ''}): let them send "
                "fewer by best, or use 'forest'"
            )

    def refuses_more(self, old: int, new: int, rounds: int) -> str:
        """Why a total cannot be raised."""
        return f"flora trains {1 + self.refine} times, whatever the total (see `refine`)"

    @property
    def needs(self) -> frozenset[str]:
        """Work at the clients that is no round."""
        return frozenset({QUERY})

    def rounds(self, search: Search) -> int:
        """One training, and those that refine it."""
        planned = (1 + self.refine) * search.rounds
        if planned > search.total:
            raise InputError(
                f"total = {search.total}: flora trains {1 + self.refine} times {search.rounds} rounds, "
                f"{planned} in all"
            )
        if search.evaluator.privacy is not None:
            raise InputError("privacy: flora has a privacy of its own, of the pairs that parties send")
        from fedhpo.methods.flora.surfaces.over import check_over

        check_over(self.surface, self.weighting, search.objective)
        local_space(search.space)
        return planned

    def check_federation(self, federation: Federation) -> None:
        """Learners are trained whole."""
        check_local_rounds(self.local_rounds, federation)

    def run(self, search: Search) -> Trial:
        """Algorithm 1."""
        space = local_space(search.space)
        self._check_pairs(len(search.session.train_clients))
        parties = self._search_at_parties(search, space)

        @cache
        def surface() -> Surface:
            return self._surface(space, parties, search)

        from fedhpo.methods.flora.recommend import recommend

        found = search.session.decide(
            "flora", self.to_dict(), lambda: recommend(self, parties, surface(), search)
        )
        search.facts[self.name].update(found)
        config = search.space.complete(Config.from_dict(found["config"]))
        guided = Guided(config, surface)
        given = search.start(len(search.enqueued), guided, Fixed())
        trials = [trial for trial in given if trial.config == config] or search.start(1, guided, Fixed())
        search.eliminate([trial for trial in given if trial not in trials])
        self._train(search, trials)
        for _ in range(self.refine):
            more = search.start(1, guided, Fixed())
            self._train(search, more)
            trials += more
        return search.best(trials)

    def sections(self, search: Search) -> list[Any]:
        """What the parties sent, for the report."""
        return party_sections(search.facts.get(self.name))

    def _train(self, search: Search, trials: Sequence[Trial]) -> None:
        """Line 8."""
        search.train(trials, search.rounds)
        search.evaluate(trials)
        search.finish(trials)

    def _search_at_parties(self, search: Search, space: Space) -> list[PartyPairs]:
        """Lines 2 to 5: what each party sends of its own search; who does not is left out."""
        session = search.session
        journal = session.directory / JOURNAL if session.kept else None
        metric, about = search.objective.metric, session.describe()
        if self.privacy is not None and metric == "loss" and "scoring" not in about:
            raise InputError("privacy needs a score in [0, 1]: objective 'accuracy' or 'error', not 'loss'")
        query = self._query(
            space, search.rounds, derive(search.seed, "flora"), local_scoring(metric), journal
        )
        facts: dict[str, Any] = {
            "training": about.get("training", "federated averaging"),
            "loss": loss_in_words(metric, about.get("scoring")),
        }
        if self.privacy is not None:
            told = self.privacy.to_dict(self.configs, self.chosen)
            facts["privacy"] = session.decide(
                "local privacy", told, lambda: told, epsilon=self.privacy.epsilon
            )
        asked = session.query(query, session.train_clients)
        if journal is not None:
            journal.unlink(missing_ok=True)  # the answers are recorded: what parties tried is theirs
        answers = [checked(answer, space) for answer in asked]
        parties = [PartyPairs.from_dict(a.client, a.content) for a in answers if a.status == Status.OK]
        facts["parties"] = [in_result(answer, losses_sent=self.chosen != 1) for answer in answers]
        search.facts[self.name] = facts
        search.tell("parties")
        if len(parties) < self.minimum:
            failed = [answer for answer in answers if answer.status != Status.OK]
            why = f": party {failed[0].client}: {failed[0].reason}" if failed else ""
            if self.deadline is not None and any(one.reason and one.reason.why == Why.LATE for one in failed):
                why += f"; deadline = {self.deadline:g} says how many seconds a party may take"
            raise InputError(f"{len(parties)} of {len(answers)} parties answered, {self.minimum} must{why}")
        return parties

    def _query(
        self, space: Space, rounds: int, seed: int, scoring: str, journal: Path | None = None
    ) -> LocalSearch:
        return LocalSearch(
            space,
            configs=self.configs,
            best=self.best,
            spread=self.spread and self.best is not None and self.chosen is None,
            sampler=SAMPLERS.get(str(self.sampler), samplers.Random)(),
            listed=self.sampler == LIST,
            folds=self.folds,
            scoring=scoring,
            rounds=rounds if self.local_rounds is None else self.local_rounds,
            deadline=self.deadline,
            privacy=self.privacy,
            try_default=self.try_default,
            seed=seed,
            journal=journal,
        )

    def _surface(self, space: Space, parties: Sequence[PartyPairs], search: Search) -> Surface:
        """Line 6: the unified loss surface."""
        from fedhpo.methods.flora.surfaces import diagnose, fit_surface

        name: str = self.surface
        if name == AUTO and search.objective.over != "mean":
            name = "aplm"  # the only one that follows it
        if name == AUTO:
            name = diagnose(space, parties, seed=search.seed, **self.regression)["recommended"]
        weighting = "uniform" if name == "mplm" else self.weighting
        settings = {**self.regression, "weighting": weighting, "objective": search.objective}
        if self.privacy is None and search.evaluator.trims(search.objective) and len(parties) >= LEAST:
            settings["trim"] = TRIM
        return fit_surface(name, space, parties, seed=derive(search.seed, "surface"), **settings)

    @property
    def regression(self) -> dict[str, Any]:
        """How a surface is fitted."""
        return {"alpha": self.alpha, "regressor": self.regressor, "weighting": self.weighting}


#: Stands in where settings are checked before there is a space.
_ANY = Space(client={"lr": Float(0.0, 1.0)})
