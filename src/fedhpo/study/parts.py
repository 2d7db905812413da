"""Who honours which keys of a study: what is trained, and where it is trained.

A key that was set and that nobody honours in this combination is refused, with those who would. Sections of
another place are set aside, and the run says so: one study serves a simulation and real clients.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from typing import Any

from fedhpo.core.claims import Part, refuse, refuse_unclaimed
from fedhpo.core.phrasing import shown
from fedhpo.engine.hyperparameters import Local
from fedhpo.federations.learners import TRAINING
from fedhpo.learners.averaging import AVERAGING, can_average
from fedhpo.learners.bagging import BAGGING, JOINED
from fedhpo.learners.paper import HGB
from fedhpo.study.learners import BOOSTED, is_learner, learner_in
from fedhpo.study.sections import Remote, StudyFile
from fedhpo.study.trainees import trainee_class

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
_OWN_TRAINING = ("client.train", "client.hyperparameters")
_LOCAL = tuple(f"client.{f.name}" for f in fields(Local))

TORCH = Part("torch models in a simulation", ("server", "device", "federation", *_OWN_TRAINING, *_LOCAL))
TORCH_ASKED = Part(
    "torch models over Flower or NVFlare",
    ("server", "client.open", *_OWN_TRAINING, *_LOCAL),
)
TORCH_AT_PLACE = Part("torch models at a [place]", ("server", *_OWN_TRAINING, *_LOCAL))
TRAINEE = Part("trainees of your own", ("server",))
OWN_PLACE = Part("parties at a [place]", ("place",))
POOLED = Part("learners whose rows are in one place", ())
BAGGED = Part("boosted trees by bagging", ("server.weighting", "server.weight_cap"))
CYCLIC = Part("boosted trees in cycles", ("server.weight_cap",))
AVERAGED = Part("averaged MLPs", _RULE)
ALONE = Part("estimators over Flower or NVFlare", ("server.weight_cap",))
APP = Part("Flower apps", ("server.weight_cap",))


def _waiting(who: str, *without: str) -> Part:
    """Who honours the keys that say how to wait for clients, but for some."""
    keys = [key for key in Remote.model_fields if key not in without]
    return Part(who, [f"{place}.{key}" for place in (FLOWER, NVFLARE) for key in keys])


#: Keys that say how to wait for clients, whatever they train.
ASKED = _waiting("clients over Flower or NVFlare")
#: Estimators stay where they are: no message holds a model.
ASKED_ALONE = _waiting("clients over Flower or NVFlare", "message_bytes")
#: An app brings its own clients, which hold no reply.
APP_CLIENTS = _waiting("clients of a Flower app", "hold_replies")
EVERYBODY = (TORCH, TORCH_ASKED, TRAINEE, OWN_PLACE, BAGGED, CYCLIC, AVERAGED, ALONE, APP, ASKED)


def trainee_of(file: StudyFile, place: str) -> Part:
    """What is trained there."""
    if file.app is not None:
        return APP
    if trainee_class(file.model) is not None:
        return TRAINEE
    if not is_learner(file.model):
        if place == SIMULATION and file.place is not None:
            return TORCH_AT_PLACE
        if place != SIMULATION:
            own = file.client.train is not None or file.client.open or file.client.hyperparameters is not None
            return _without(TORCH_ASKED, _LOCAL if own else ())
        return _without(TORCH, _LOCAL if file.client.train is not None else _OWN_TRAINING)
    training = training_of(file, place)
    if file.model.name in BOOSTED and training in JOINED:
        return BAGGED if training == BAGGING else CYCLIC
    if training == AVERAGING:
        return AVERAGED
    return POOLED if place == SIMULATION else ALONE


def training_of(file: StudyFile, place: str) -> str | None:
    """How a learner is trained there, as the study says or by default; None where clients train alone."""
    if "training" in file.model.others:
        return str(file.model.others["training"])
    if place == SIMULATION:
        return POOLED_ROWS
    if file.model.name in BOOSTED:
        return BAGGING
    return AVERAGING if can_average(learner_in(file.model)) else None


def _without(part: Part, keys: Collection[str]) -> Part:
    return Part(part.who, [key for key in part.claims if key not in keys])


def refuse_without_effect(file: StudyFile, given: Mapping[str, Any], place: str) -> None:
    """Refuse the keys that nobody honours where the study is to run."""
    trainee, asked = trainee_of(file, place), place in (FLOWER, NVFLARE)
    where = APP_CLIENTS if file.app is not None else ASKED_ALONE if trainee is ALONE else ASKED
    here = [trainee, *([where] if asked else [] if file.app is not None else [OWN_PLACE])]
    refuse_unclaimed(
        {key: value for key, value in _keys(given) if _belongs(key, place)},
        here,
        EVERYBODY,
        _combination(file, place),
    )


def refuse_anywhere(file: StudyFile, given: Mapping[str, Any]) -> None:
    """Refuse the keys that nobody honours, wherever the study may run."""
    places = (FLOWER,) if file.app is not None else (SIMULATION, FLOWER)
    here = [*(trainee_of(file, place) for place in places), *([] if file.app is not None else [OWN_PLACE])]
    keys = {key: value for key, value in _keys(given) if key.partition(".")[0] not in (FLOWER, NVFLARE)}
    refuse_unclaimed(keys, here, EVERYBODY, _combination(file, None))


def refuse_other_training(study: Mapping[str, Any], table: Mapping[str, Any], name: str) -> None:
    """Refuse a study that says of a table's training what was not recorded."""
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
    """The sections that are another place's; in one line, if there are any."""
    aside = [f"[{key}]" for key, where in SECTIONS.items() if given.get(key) and where != place]
    return [f"set aside {PLACES[place]}: {', '.join(aside)}"] if aside else []


def _combination(file: StudyFile, place: str | None) -> str:
    what = "[app]" if file.app is not None else f"model.name = {file.model.name!r}"
    return what if place is None else f"{what} {PLACES[place]}"


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


#: Of trees that parties grow and the server joins.
_OTHER_TREES = (
    "model.name = 'hgb': joined trees are XGBoost's, with the hyperparameters of the same names; "
    "scikit-learn's are trained where rows are pooled"
)


def said_of_training(file: StudyFile, place: str) -> list[str]:
    """How a learner is trained where the study does not say so: it differs by place."""
    if file.app is not None or not is_learner(file.model):
        return []
    joined = trainee_of(file, place) in (BAGGED, CYCLIC)
    trees = [_OTHER_TREES] if joined and file.model.name == HGB.name else []
    return trees + _said_of_default_training(file, place)


def _said_of_default_training(file: StudyFile, place: str) -> list[str]:
    if "training" in file.model.others:
        return []
    here, there = training_of(file, place), training_of(file, FLOWER)
    if there is None:  # clients keep models of their own
        return []
    if place == SIMULATION:
        elsewhere = f"over Flower and NVFlare it is by {there}; write training = {there!r} for the same here"
        return [f"model.training is left out: trained pooled: all parties' rows in one place; {elsewhere}"]
    return [f"model.training is left out: trained by {TRAINING[str(here)]}; a simulation pools rows"]
