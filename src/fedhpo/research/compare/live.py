"""Methods compared live: every run is a run of its own, kept and resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedhpo.core.digests import read_with_digest, write_with_digest
from fedhpo.core.errors import Terminated
from fedhpo.core.run_errors import RunError
from fedhpo.research.compare.comparison import Comparison
from fedhpo.research.compare.methods import with_method
from fedhpo.research.incumbents import Incumbents, note
from fedhpo.search.events import Event
from fedhpo.search.search import Search
from fedhpo.search.trial import Trial
from fedhpo.search.verdict import verdict_of
from fedhpo.study import Study


def compare_live(
    study: Study,
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    runs: str | Path,
    workers: int | None = None,
    progress: Callable[[str, int], Sequence[Callable[[Event], Any]]] = lambda method, seed: (),
) -> Comparison:
    """Tune the study with each method and seed; runs are kept in `runs` and go on where they were.

    Where scores are noisy, each incumbent is scored once more by all validation clients. That is the
    experimenter's knowledge: no method sees it, and it is not charged. `progress` gives the callbacks
    of a run.
    """
    directory = Path(runs)
    directory.mkdir(parents=True, exist_ok=True)
    studies = {method: with_method(study, method) for method in methods}
    found: dict[str, list[Incumbents]] = {method: [] for method in methods}
    verdicts: dict[str, list[str]] = {method: [] for method in methods}
    with study.federation(workers) as federation:
        for method in methods:
            for seed in seeds:
                place = f"{method.replace(':', '_').replace('.', '_')}-{seed}"
                trace = _Trace(directory / f"{place}.incumbents.json")
                result = with_method(study, method, seed).tune(
                    directory / place,
                    workers=workers,
                    callbacks=[trace, *progress(method, seed)],
                    federation=federation,
                )
                if result.status == "stopped":  # called again, the comparison goes on here
                    raise Terminated if result.facts["reason"] == "terminated" else KeyboardInterrupt
                found[method].append(trace.incumbents)
                verdicts[method].append(verdict_of(result.facts).kind)
    any_study = next(iter(studies.values()))
    budget = study.file.budget
    return Comparison(
        study.name,
        any_study.objective.metric,
        any_study.objective.maximise,
        budget.total or 10 * budget.rounds,
        list(seeds),
        found,
        {
            "study": study.name,
            "runs": str(directory),
            "evaluation": study.evaluator.to_dict(),
            "validation_clients": len(federation.validation_clients),
        },
        verdicts,
    )


class _Trace:
    """The true scores of a run's incumbents, kept in a file, since a resumed run cannot score its past."""

    def __init__(self, path: Path) -> None:
        self._path = path
        remedy = f"delete it and {path.name.split('.')[0]} beside it: both are then made again"
        self._truths: dict[str, float] = read_with_digest(path, remedy)["truths"] if path.is_file() else {}
        self.incumbents: list[tuple[int, float]] = []

    def __call__(self, event: Event) -> None:
        # Once the method has chosen, the user's own config may be trained too, outside the budget.
        leader = None if event.search.concluding else event.search.leader()
        if event.kind not in ("evaluate", "chosen") or leader is None:
            return
        truth = self._truth(event.search, leader)
        if truth is None:
            return
        note(self.incumbents, event.search.ledger.cost.rounds, truth)

    def _truth(self, search: Search, leader: Trial) -> float | None:
        """The leader's score over all validation clients; None where it can no longer be known."""
        score = leader.scores[-1]
        key = f"{leader.number}@{score.round}"
        if key not in self._truths:
            known = self._seen(search, leader)
            if known is None:
                return None
            self._truths[key] = known
            write_with_digest(self._path, {"truths": self._truths})
        return self._truths[key]

    def _seen(self, search: Search, leader: Trial) -> float | None:
        evaluator, score, session = search.evaluator, leader.scores[-1], search.session
        if evaluator.clients is None and evaluator.privacy is None:
            return score.value
        if leader.number not in session.trials or leader.round != score.round:
            return None
        try:
            session.wake(leader.number)
        except RunError:  # a past that was not scored before the run was killed
            return None
        everybody = session.validation_clients
        [scores] = session.evaluate_beside([leader.number], everybody)
        return search.objective.observe(scores, leader.round, len(everybody)).value
