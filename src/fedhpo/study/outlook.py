"""What a study will do and cost, before it is run: it is built, one batch is tried, nothing is tuned."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedhpo.core.phrasing import shown
from fedhpo.privacy.privacy import DEFAULT
from fedhpo.workers.spawn import cores

if TYPE_CHECKING:
    from fedhpo.protocol.federation import Federation
    from fedhpo.study.study import Study
    from fedhpo.tuning.plan import TimePlan


@dataclass(frozen=True)
class Outlook:
    """`facts` are what a program reads, `rows` the same for people: a label and words each, by section."""

    facts: Mapping[str, Any]
    rows: Mapping[str, list[tuple[str, str]]] = field(default_factory=dict)


def outlook(study: Study, workers: int | None = None) -> Outlook:
    """Build the study's federation, try one batch, go through the method without training."""
    from fedhpo.federations.simulated import SimulatedFederation
    from fedhpo.protocol.federation import QUERY

    noted: list[str] = list(study.said())
    plan, pace = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with study.federation(workers=0) as opened:
            default = study.space.default()
            study.check_on(opened)
            study.preflight(opened)
            if isinstance(opened, SimulatedFederation) and QUERY not in study.method.needs:
                plan = study.plan(draws=1, federation=opened)
                pace = opened.seconds_a_row(default)
            clients = _clients(opened)
    noted += [str(one.message) for one in caught]
    count = cores() if workers is None else workers
    seconds = None if plan is None or pace is None else plan.samples * pace / max(1, count)
    budget = study.file.budget
    facts = {
        "name": study.name,
        "method": study.method.name,
        "hyperparameters": len(study.space.names),
        "clients": clients,
        "rounds": budget.rounds,
        "total": budget.total,
        "plan": None
        if plan is None
        else {k: v for k, v in plan.to_dict().items() if study.fleet or k not in CLOCK},
        "estimated_seconds": seconds,
        "warnings": noted,
    }
    rows = {
        "Study": _study(study, clients),
        "Space": [(name, _range(study, name)) for name in study.space.names],
        "Cost": _cost(study, plan, seconds, count),
        "Privacy": _privacy(study, plan),
        "Warnings": [("", text) for text in noted],
    }
    return Outlook(facts, {name: found for name, found in rows.items() if found})


#: A plan's times, which mean nothing unless the study says how fast clients are.
CLOCK = ("mean_seconds", "least_seconds", "most_seconds", "seconds", "round_seconds")


def _clients(federation: Federation) -> dict[str, int]:
    return {
        "training": len(federation.train_clients),
        "validation": len(federation.validation_clients),
        "test": len(federation.test_clients),
    }


def _study(study: Study, clients: Mapping[str, int]) -> list[tuple[str, str]]:
    cohort = study.file.budget.cohort
    return [
        ("name", study.name),
        ("clients", ", ".join(f"{count:,} for {what}" for what, count in clients.items() if count)),
        ("in a round", "10, or all" if cohort is None else f"{cohort:,}"),
        ("method", study.method.name),
    ]


def _range(study: Study, name: str) -> str:
    scope, _, key = name.partition(".")
    one = study.space.to_dict()[scope][key]
    words = [_part(key, value) for key, value in one.items() if key not in ("default", "type")]
    return f"{', '.join(words)}; your own: {shown(study.space.default().flat().get(name))}"


def _part(key: str, value: Any) -> str:
    if value is True:
        return key
    return f"{key} {value:g}" if isinstance(value, float) else f"{key} {shown(value)}"


def _cost(study: Study, plan: TimePlan | None, seconds: float | None, workers: int) -> list[tuple[str, str]]:
    from fedhpo.pages.numbers import duration, megabytes, whole

    budget = study.file.budget
    if plan is None:
        most = budget.rounds if study.method.trains_once else budget.total or 10 * budget.rounds
        return [("rounds", f"at most {most:,}, of one full training {budget.rounds:,}")]
    # Shapes that are tuned have other sizes, and which of them are trained longest is not known yet.
    shape = any(name.startswith("model.") for name in study.space.names)
    size = ", if all models are as large as your own config's" if shape else ""
    found = [
        ("rounds", f"{whole(plan.rounds)}, of one full training {budget.rounds:,}"),
        ("client-rounds", whole(plan.client_rounds)),
        ("scores", f"{whole(plan.evaluations)} (a model scored by a client)"),
        ("sent to clients", megabytes(plan.bytes_down) + size),
        ("sent to the server", megabytes(plan.bytes_up) + size),
        (
            "time here",
            "not known: your own function trains"
            if seconds is None
            else f"{'below 1 s' if seconds < 1 else f'about {duration(seconds)}'} of training with {workers} "
            f"worker{'s' if workers != 1 else ''}, "
            "scoring and start not counted",
        ),
    ]
    if study.fleet is not None:
        found.append(("by the clients' clock", duration(plan.mean)))
    if plan.auto is not None:
        found.insert(0, ("auto would take", f"{plan.auto['method']}. {plan.auto['why']}"))
    return found


def _privacy(study: Study, plan: TimePlan | None) -> list[tuple[str, str]]:
    privacy = study.evaluator.privacy
    if privacy is None:
        return []
    chosen = (plan.auto if plan is not None else None) or {}
    mechanism = privacy.mechanism or chosen.get("mechanism", DEFAULT)
    kept = "no ledger: copies of the run are not noticed" if privacy.budget is None else str(privacy.budget)
    return [
        ("epsilon", f"{privacy.epsilon:g} for all scores of this study"),
        ("mechanism", f"{mechanism}, accounting {privacy.accounting}"),
        ("budget", kept),
    ]
