"""How a study's server puts updates together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.own_rule import rule_of
from fedhpo.aggregation.presets import PRESETS, SAFE
from fedhpo.core.claims import refuse, refuse_unhonoured
from fedhpo.study.parts import SIMULATION, TABLE
from fedhpo.study.sections import Server

if TYPE_CHECKING:
    from fedhpo.study.study import Study

_ONCE = "which lets every client count once"


def aggregation_in(server: Server, weighting: str, default: Aggregation) -> Aggregation:
    """As [server] says, `default` where it names no rule.

    Other keys of the section override those of the preset or the default.
    """
    given = server.aggregation
    start = default if given is None else PRESETS.get(given) if isinstance(given, str) else None
    if start is None and given is not None:
        rule, own = rule_of(given, (*Aggregation.RULES, *PRESETS), "server.aggregation")
        start = Aggregation(rule=rule, own=own)
    keys = server.model_fields_set & {"trim", "clip_norm", "weight_cap"}
    assert start is not None
    found = replace(start, weighting=weighting, **{key: getattr(server, key) for key in keys})
    if server.strategy is None:
        refuse_unhonoured(found, "server", server.model_fields_set, {"rule": "aggregation"})
        if "weighting" in server.model_fields_set and found.counts_once and found.weighting == "size":
            refuse([f"server.weighting = 'size': has no effect with {found.rule}, {_ONCE}: leave it out"])
    return found


def said_of_weighting(study: Study, place: str) -> list[str]:
    """A note that `weighting` has no effect, where the rule counts every client once."""
    uniform = study.given.get("server", {}).get("weighting") == "uniform"
    weighs = place != TABLE and study.kind.part(place).honours("server.aggregation")
    if not uniform or not weighs or study.file.server.strategy:
        return []
    how = study.aggregation(default=Aggregation() if place == SIMULATION else SAFE)
    return [f"server.weighting: has no effect with {how.rule}, {_ONCE}"] if how.counts_once else []
