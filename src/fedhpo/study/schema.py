"""The study file as a JSON schema, for editors and for the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from fedhpo.aggregation.server import optimisers
from fedhpo.core.registry import Registry
from fedhpo.data import datasets
from fedhpo.methods.auto import Auto
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.registry import methods, parts
from fedhpo.methods.tuner import Tuner
from fedhpo.models import models
from fedhpo.study.from_dataclass import section_of
from fedhpo.study.kinds.learners import NAMES
from fedhpo.study.sections import StudyFile

#: Names of a user's own: `package.module:name`.
OWN = r"^[^:]+:[^:]+$"


def schema() -> dict[str, Any]:
    """The JSON schema of a study file, with the names of data sets, models, methods and their parts.

    What installed packages bring is named, not imported: their settings are checked when a study is read.

    >>> sorted(schema()["required"])
    ['budget', 'space']
    """
    found = StudyFile.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"] = "fedhpo study"
    found["required"] = [key for key in found["required"] if key not in ("data", "model")]
    found["anyOf"] = [{"required": ["data", "model"]}, {"required": ["app"]}, {"required": ["job"]}]
    definitions = found["$defs"]
    for section, key, names in (
        ("Data", "name", datasets.names()),
        ("Model", "name", [*models.names(), *NAMES]),
        ("Server", "optimiser", optimisers.names()),
    ):
        name = definitions[section]["properties"][key]
        name.pop("type")
        name["anyOf"] = _any_of(names)
    found["properties"]["method"] = {
        "description": "the method and its settings; auto if left out",
        "anyOf": [*_named(methods), _tuner()],
    }
    return found


def _any_of(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{"enum": list(names)}, {"type": "string", "pattern": OWN}]


def _named(registry: Registry[type[Any]]) -> list[dict[str, Any]]:
    """One table for each name of ours with its settings, and one for all that others may bring."""
    ours = [_table(name, section_of(kind)) for name, kind in registry.ours.items()]
    others = [name for name in registry.names() if name not in registry.ours]
    name: Mapping[str, Any] = {"anyOf": _any_of(others)} if others else _any_of(())[1]
    about = "your own, or an installed package's: further keys are the fields of its dataclass"
    return [
        *ours,
        {"description": about, "type": "object", "properties": {"name": name}, "required": ["name"]},
    ]


def _table(name: str, section: type[BaseModel]) -> dict[str, Any]:
    one = section.model_json_schema()
    one["properties"] = {"name": {"const": name}, **one.get("properties", {})}
    # Without a name the method is auto, so the others need theirs.
    return one if name == Auto.name else {**one, "required": ["name", *one.get("required", [])]}


def _tuner() -> dict[str, Any]:
    """A tuner that is put together from its parts."""
    return {
        "title": "Tuner",
        "description": "a schedule, a sampler, a client policy, and maybe an exchange between trials",
        "type": "object",
        "properties": {
            "name": {"const": Tuner.name},
            **{key: {"anyOf": _named(registry)} for key, registry in parts.items()},
            "exchange": section_of(Exchange).model_json_schema(),
        },
        "required": ["schedule"],
        "additionalProperties": False,
    }
