"""Settings of `fedhpo.tune` that have no effect together: refused before anything is trained."""

from __future__ import annotations

from dataclasses import is_dataclass

from fedhpo.core.claims import refuse, refuse_unhonoured, uncounted
from fedhpo.core.errors import InputError
from fedhpo.methods import Auto, Tuner
from fedhpo.methods.preset import Preset
from fedhpo.protocol.federation import Federation
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective, local_scoring
from fedhpo.search.evaluator import Evaluator
from fedhpo.space import Space, ends


def refuse_without_effect(
    method: Method | Tuner, objective: Objective, evaluator: Evaluator, space: Space, federation: Federation
) -> None:
    """Refuse what does not count beside its others, with this method, or at these clients."""
    refuse_unhonoured(objective, "objective")
    refuse_unhonoured(evaluator, "evaluation")
    if isinstance(method, Tuner):
        for name in ("schedule", "sampler", "policy", "exchange"):
            part = getattr(method, name)
            if is_dataclass(part):
                refuse_unhonoured(part, f"method.{name}")
    if evaluator.average == "recent" and not compares_often(method):
        refuse(
            [
                f"evaluation.average = 'recent': has no effect with {method.name}, which scores every trial "
                "once: leave it out, or use a method that scores trials on the way, such as 'sha'"
            ]
        )

    if evaluator.every is not None and _exchanges(method):
        refuse(
            [
                f"evaluation.every = {evaluator.every}: has no effect with {method.name}, whose population "
                "is scored at every exchange: leave it out"
            ]
        )
    if (knobs := space.scope("policy")) and not _has_knobs(method):
        refuse(
            f"space.policy.{name}: has no effect with {method.name}; the client policies of 'fedex' and "
            "'fedpop' have such knobs: leave it out"
            for name in knobs
        )
    if federation.client_settings is not None:
        possible = {name: ends(value) for name, value in space.scope("client").items()}
        refuse(f"space.client.{name}: {why}" for name, why in uncounted(federation.client_settings, possible))
    private = evaluator.privacy
    if private is not None and private.report_test and not len(federation.test_clients):
        refuse(["evaluation.privacy.report_test: has no effect, no client holds test rows: leave it out"])


def _exchanges(method: Method | Tuner) -> bool:
    """Whether trials become copies of each other while they train."""
    tuner = method.tuner() if isinstance(method, Preset) else method
    return tuner.exchange is not None if isinstance(tuner, Tuner) else hasattr(method, "exchange")


def _has_knobs(method: Method | Tuner) -> bool:
    """Whether the method, or its client policy, may read the space's scope `policy`; strangers may."""
    tuner = method.tuner() if isinstance(method, Preset) else method
    reader = tuner.policy if isinstance(tuner, Tuner) else method
    return hasattr(reader, "tuned") or not type(reader).__module__.startswith("fedhpo.")


def compares_often(method: Method | Tuner) -> bool:
    """Whether trials are compared by scores of several rounds; of `auto` it is not known beforehand."""
    if isinstance(method, Auto):
        return True
    tuner = method.tuner() if isinstance(method, Preset) else method
    if not isinstance(tuner, Tuner):
        return False
    exchanges = tuner.exchange is not None and tuner.exchange.judge == "evaluation"
    return exchanges or bool(getattr(tuner.schedule, "compares_often", True))


def check_local_scoring(objective: Objective, federation: Federation, method: str) -> None:
    """Refuse a metric by which clients that search on their own rows cannot score."""
    known = federation.local_scorings
    if known is not None and local_scoring(objective.metric) not in known:
        raise InputError(
            f"objective metric {objective.metric!r}: with {method} each client searches on its own rows, and "
            f"scores a torch model there by 'accuracy', 'error' or 'loss': use one of these"
        )
