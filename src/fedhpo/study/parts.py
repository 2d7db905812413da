"""Who honours which keys of a study: what is trained, and where it is trained.

A key that was set but has no effect in this combination is refused; the message names who would use it.
Sections for another place are set aside, and the run says so: one study serves a simulation and real clients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from fedhpo.core.claims import Part, refuse, refuse_unclaimed
from fedhpo.core.phrasing import shown
from fedhpo.engine.hyperparameters import Local
from fedhpo.study.sections import Remote

if TYPE_CHECKING:
    from fedhpo.study.kinds.kind import Kind

#: Where a study may run: in a simulation, by messages, or on a table of recorded curves.
SIMULATION, FLOWER, NVFLARE, TABLE = "simulation", "flower", "nvflare", "table"
PLACES = {SIMULATION: "in a simulation", FLOWER: "over Flower", NVFLARE: "over NVFlare", TABLE: "on a table"}
#: How a simulation trains learners where the study does not say.
POOLED_ROWS = "pooled"
#: Sections that belong to one place.
SECTIONS = {"federation": SIMULATION, "place": SIMULATION, "flower": FLOWER, "nvflare": NVFLARE}
#: Sections whose keys must be claimed, besides the key `device`.
_CLAIMED = ("server", "client", *SECTIONS)
#: Sections that say how a model is trained: of a table they say how it was recorded.
_TRAINING = ("data", "model", "client", "server", "device")

_RULE = ("server.weighting", "server.aggregation", "server.trim", "server.clip_norm", "server.weight_cap")
OWN_TRAINING = ("client.train", "client.hyperparameters")
LOCAL = tuple(f"client.{f.name}" for f in fields(Local))

TORCH = Part("torch models in a simulation", ("server", "device", "federation", *OWN_TRAINING, *LOCAL))
TORCH_ASKED = Part(
    "torch models over Flower or NVFlare",
    ("server", "client.open", *OWN_TRAINING, *LOCAL),
)
TORCH_AT_PLACE = Part("torch models at a [place]", ("server", *OWN_TRAINING, *LOCAL))
TRAINEE = Part("trainees of your own", ("server",))
OWN_PLACE = Part("parties at a [place]", ("place",))
POOLED = Part("learners whose rows are in one place", ())
BAGGED = Part("boosted trees by bagging", ("server.weighting", "server.weight_cap"))
CYCLIC = Part("boosted trees in cycles", ("server.weight_cap",))
AVERAGED = Part("averaged MLPs", _RULE)
ALONE = Part("estimators over Flower or NVFlare", ("server.weight_cap",))
APP = Part("Flower apps", ("server.weight_cap",))
JOB = Part("NVFlare jobs", ())


def _waiting(who: str, *without: str) -> Part:
    """The part that honours the keys about waiting for clients, except `without`."""
    keys = [key for key in Remote.model_fields if key not in without]
    return Part(who, [f"{place}.{key}" for place in (FLOWER, NVFLARE) for key in keys])


#: Keys that say how to wait for clients, whatever they train.
ASKED = _waiting("clients over Flower or NVFlare")
#: Estimators stay where they are: no message holds a model.
ASKED_ALONE = _waiting("clients over Flower or NVFlare", "message_bytes")
#: An app brings its own clients, which hold no reply.
APP_CLIENTS = _waiting("clients of a Flower app", "hold_replies")
EVERYBODY = (TORCH, TORCH_ASKED, TRAINEE, OWN_PLACE, BAGGED, CYCLIC, AVERAGED, ALONE, APP, ASKED)


def without(part: Part, keys: Collection[str]) -> Part:
    """The same part, which does not honour some keys."""
    return Part(part.who, [key for key in part.claims if key not in keys])


def refuse_without_effect(kind: Kind, given: Mapping[str, Any], place: str) -> None:
    """Refuse the keys that nobody honours where the study is to run."""
    keys = {key: value for key, value in _keys(given) if _belongs(key, place)}
    refuse_unclaimed(keys, kind.claims(place), EVERYBODY, f"{kind.words} {PLACES[place]}")


def refuse_anywhere(kind: Kind, given: Mapping[str, Any]) -> None:
    """Refuse the keys that nobody honours, wherever the study may run."""
    here = [part for place in kind.places for part in kind.claims(place)]
    keys = {key: value for key, value in _keys(given) if key.partition(".")[0] not in (FLOWER, NVFLARE)}
    refuse_unclaimed(keys, here, EVERYBODY, kind.words)


def refuse_other_training(study: Mapping[str, Any], table: Mapping[str, Any], name: str) -> None:
    """Refuse a study whose training differs from what the table recorded."""
    for key in _TRAINING:
        if key in study and study[key] != table.get(key):
            ours, theirs = _flat(key, study[key]), _flat(key, table.get(key, {}))
            differs = next(one for one in (*ours, *theirs) if ours.get(one) != theirs.get(one))
            found = shown(ours[differs]) if differs in ours else "left out"
            was = shown(theirs[differs]) if differs in theirs else "the default"
            line = (
                f"{differs} = {found}: has no effect on table {name}, which was recorded with {was}: write "
            )
            refuse([f"{line}that, or build a table with fedhpo table build"])


def set_aside(given: Mapping[str, Any], place: str) -> list[str]:
    """One line that lists the sections for other places, if there are any."""
    aside = [f"[{key}]" for key, where in SECTIONS.items() if given.get(key) and where != place]
    return [f"set aside {PLACES[place]}: {', '.join(aside)}"] if aside else []


def _keys(given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The keys that must be claimed and were set, with their values."""
    if "device" in given:
        yield "device", given["device"]
    for section in _CLAIMED:
        yield from _flat(section, given.get(section, {})).items()


def _flat(section: str, table: Any) -> dict[str, Any]:
    if not isinstance(table, Mapping):
        return {section: table}
    return {f"{section}.{key}": value for key, value in table.items()}


def _belongs(key: str, place: str) -> bool:
    return SECTIONS.get(key.partition(".")[0], place) == place
