"""The study file as a JSON schema, for editors and for the documentation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from fedhpo.data import DATASETS
from fedhpo.methods import METHODS
from fedhpo.models import MODELS
from fedhpo.study.from_dataclass import section_of
from fedhpo.study.learners import NAMES
from fedhpo.study.sections import StudyFile

#: Names of a user's own: `package.module:name`.
OWN = r"^[^:]+:[^:]+$"


def schema() -> dict[str, Any]:
    """The JSON schema of a study file, with the names of data sets, models and methods.

    >>> sorted(schema()["required"])
    ['budget', 'data', 'model', 'space']
    """
    found = StudyFile.model_json_schema()
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"] = "fedhpo study"
    definitions = found["$defs"]
    for section, names in (("Data", tuple(DATASETS)), ("Model", (*MODELS, *NAMES))):
        name = definitions[section]["properties"]["name"]
        name.pop("type")
        name["anyOf"] = [{"enum": list(names)}, {"type": "string", "pattern": OWN}]
    found["properties"]["method"] = {
        "description": "the method and its settings; SHA if left out",
        "anyOf": [_method(name, section_of(kind)) for name, kind in METHODS.items()],
    }
    return found


def _method(name: str, section: type[BaseModel]) -> dict[str, Any]:
    one = section.model_json_schema()
    one["properties"] = {"name": {"const": name}, **one.get("properties", {})}
    # Without a name the method is SHA, so the others need theirs.
    return one if name == "sha" else {**one, "required": ["name", *one.get("required", [])]}
