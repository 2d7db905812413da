"""Settings of `fedhpo.tune` that have no effect together: refused before anything is trained."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from fedhpo.core.claims import refuse, refuse_unhonoured, uncounted
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.phrasing import shown
from fedhpo.core.settings import is_number
from fedhpo.methods import Auto, Tuner
from fedhpo.methods.auto import Case, choose
from fedhpo.methods.fedpop.auto import FedPopAuto
from fedhpo.methods.preset import Preset
from fedhpo.methods.robust import RobustHalving
from fedhpo.protocol.federation import FORK, MIX, Federation
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective, local_scoring
from fedhpo.protocol.schedule import FULL, HORIZONS
from fedhpo.samplers import Grid
from fedhpo.search.decided import BOUNDED, MARGIN
from fedhpo.search.evaluator import Evaluator
from fedhpo.search.keeping import KEEPS
from fedhpo.search.search import Search
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
    if evaluator.average == "recent":
        _check_recent(method, evaluator, federation)
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
    sampler = getattr(_parts_of(method), "sampler", None)
    if isinstance(sampler, Grid) and sampler.points != Grid.points and federation.about.pool is not None:
        refuse(
            [
                f"method.points = {shown(sampler.points)}: has no effect with {method.name} on a table: "
                "its configs are tried one after the other: leave it out"
            ]
        )
    private = evaluator.privacy
    if private is not None and private.report_test and not len(federation.test_clients):
        refuse(["evaluation.privacy.report_test: has no effect, no client holds test rows: leave it out"])


def check_horizon(method: Method | Tuner, search: Search, federation: Federation) -> None:
    """Refuse schedules as long as a rung where no trial is cut short, or where nothing follows them."""
    if search.horizon not in HORIZONS:
        raise unknown_name("horizon", search.horizon, HORIZONS)
    if search.horizon == FULL:
        return
    said = f"horizon = {search.horizon!r}: has no effect"
    if not method.cuts(search):
        refuse(
            [
                f"{said} with {method.name} and this budget, where no trial is cut short and could be "
                "trained anew: leave it out, or use a method that stops trials early, such as 'sha', "
                "'hyperband' or 'robust'"
            ]
        )
    if why := federation.why_no_horizon(search.space):
        refuse([f"{said}: {why}: leave it out"])


def check_keep(method: Method | Tuner, search: Search, federation: Federation) -> None:
    """Refuse to keep another model than the last where there is none, or where it would be a wrong one."""
    if search.keep not in KEEPS:
        raise unknown_name("keep", search.keep, KEEPS)
    if search.keep == "last":
        return
    said = f"keep = {search.keep!r}"
    if search.evaluator.privacy is not None:
        refuse([f"{said}: choosing between models takes scores that no epsilon pays for: leave it out"])
    if isinstance(method, FedPopAuto) or _exchanges(method):
        refuse([f"{said}: has no effect with {method.name}, which keeps models in its own way: leave it out"])
    if search.rounds < 2:
        refuse([f"{said}: has no effect in trainings of one round: leave it out"])
    federation.require({FORK} if search.keep == "best" else {FORK, MIX}, said)
    why = "" if search.keep == "best" else federation.why_no_mean(search.space.default().model)
    if why:
        refuse([f"{said}: {why}: leave it out, or write 'best'"])


def refuse_steps_beyond(space: Space, federation: Federation, rounds: int) -> None:
    """Refuse a learning rate that falls in steps of which none comes before the end of the training."""
    if federation.client_settings is None:
        return
    client = space.scope("client")
    usual = {one.name: one.default for one in fields(federation.client_settings)}
    if set(ends(client.get("lr_schedule", ""))) != {"step"}:
        return
    first = sum(min(ends(client.get(name, usual[name]))) for name in ("warmup", "lr_step"))
    if first >= rounds:
        refuse(
            [
                f"space.client.lr_schedule = 'step': has no effect in trainings of {rounds} rounds, as the "
                f"first step comes after {first} (warmup and lr_step): leave it out, or change lr_step"
            ]
        )


def margin_of(stop: str | None, margin: float | None) -> float | None:
    """The margin by which a race is decided; None where it ends otherwise."""
    if stop is None:
        if margin is not None:
            refuse([f"margin = {shown(margin)}: counts only where stop is 'decided': leave it out"])
        return None
    if stop != "decided":
        raise unknown_name("stop", stop, ("decided",))
    if margin is not None and not (is_number(margin) and 0 < margin < 1):
        raise InputError(f"margin must be a number in (0, 1), not {shown(margin)}")
    return MARGIN if margin is None else float(margin)


def check_stop(method: Method | Tuner, search: Search, federation: Federation) -> None:
    """Refuse `stop` where nothing races, or where its bound does not hold."""
    if search.margin is None:
        return
    said = "stop = 'decided'"
    if search.evaluator.privacy is not None:
        refuse([f"{said}: when a race ends would tell of scores that no epsilon pays for: leave it out"])
    if search.objective.metric not in BOUNDED or search.objective.over != "mean":
        refuse([f"{said}: its bound needs means of scores in [0, 1], 'accuracy' or 'error': leave it out"])
    clients = len(federation.validation_clients)
    if isinstance(method, Auto):
        asked = search.evaluator.count(clients)
        several = bool(search.criteria)
        method = choose(Case(search.rounds, search.total, clients, asked, several=several)).method
    tuner = method.tuner() if isinstance(method, Preset) else method
    schedule = tuner.schedule if isinstance(tuner, Tuner) else None
    if not isinstance(schedule, RobustHalving) or not schedule.race:
        refuse(
            [f"{said}: has no effect with {method.name}, which has no race: use 'robust', or leave it out"]
        )
    if search.evaluator.count(clients) >= clients:
        refuse([f"{said}: has no effect where all clients are asked, which needs no race: leave it out"])


def _exchanges(method: Method | Tuner) -> bool:
    """Whether trials become copies of each other while they train."""
    tuner = method.tuner() if isinstance(method, Preset) else method
    return tuner.exchange is not None if isinstance(tuner, Tuner) else hasattr(method, "exchange")


def _check_recent(method: Method | Tuner, evaluator: Evaluator, federation: Federation) -> None:
    """Refuse means over rounds where there is one score, or where scores have no error to lessen."""
    recent = "evaluation.average = 'recent': has no effect"
    if not compares_often(method):
        refuse(
            [
                f"{recent} with {method.name}, which scores every trial once: leave it out, or use a method "
                "that scores trials on the way, such as 'sha'"
            ]
        )
    all_reply = not (federation.remote or federation.timed)
    if evaluator.clients is None and evaluator.privacy is None and all_reply:
        refuse(
            [
                f"{recent} where all clients are asked and reply: it counts where evaluation.clients or "
                "[evaluation.privacy] is given, with [federation], and over Flower or NVFlare: leave it out"
            ]
        )


def _parts_of(method: Method | Tuner) -> Tuner | None:
    """The tuner that a method is put together as; None where it is not."""
    found = method.tuner() if isinstance(method, Preset) else method
    return found if isinstance(found, Tuner) else None


def _has_knobs(method: Method | Tuner) -> bool:
    """Whether the method, or its client policy, may read the space's scope `policy`; strangers may."""
    tuner = _parts_of(method)
    reader = method if tuner is None else tuner.policy
    return hasattr(reader, "tuned") or not type(reader).__module__.startswith("fedhpo.")


def compares_often(method: Method | Tuner) -> bool:
    """Whether trials are compared by scores of several rounds; of `auto` it is not known beforehand."""
    if isinstance(method, Auto):
        return True
    tuner = _parts_of(method)
    if tuner is None:
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
