"""The documentation of the study file, from its schema."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any

from fedhpo import data
from fedhpo.aggregation.server import OPTIMISERS
from fedhpo.core.phrasing import allowed
from fedhpo.engine.hyperparameters import Local
from fedhpo.methods import METHODS
from fedhpo.methods.fedpop.exchange import Exchange
from fedhpo.methods.registry import parts
from fedhpo.models import MODELS, hyperparameter_defaults
from fedhpo.space import Float, Int, Space, ends
from fedhpo.space.suggested import SUGGESTED
from fedhpo.study.from_dataclass import section_of
from fedhpo.study.kinds.learners import ESTIMATOR, OPTIONS, OPTIONS_OF_ESTIMATOR
from fedhpo.study.kinds.learners import NAMES as LEARNERS
from fedhpo.study.problems import resolve
from fedhpo.study.schema import schema

#: What `partition.kind` and `split.kind` may be.
PARTITIONS: Mapping[str, type[Any]] = {
    "iid": data.IID,
    "dirichlet": data.Dirichlet,
    "shards": data.Shards,
    "natural": data.Natural,
    "heterogeneity_index": data.HeterogeneityIndex,
    "gaussian": data.GaussianSkew,
    "poisson": data.PoissonSkew,
}
SPLITS: Mapping[str, type[Any]] = data.SPLIT_RULES
#: Keys that stand in no section.
TOP = ("name", "seed", "device", "objectives", "constraints", "enqueue")


def page() -> str:
    """The page `docs/study-file.md`."""
    whole = schema()
    sections = whole["properties"]
    pieces = [
        "# The study file",
        "A study file says what to tune, on which data and model, with which method and budget. It is TOML; "
        "`fedhpo schema` prints its JSON schema, for editors that complete and check. This page is made by "
        "`python docs/_make.py`.",
        "Required are `[data]` and `[model]`, or `[app]`; one hyperparameter in `[space]`, and `[budget]`. "
        "A key that is not listed here is an error. `examples/` holds complete files.",
        '**A study file is a program.** Names such as `"package.module:function"` in `[data]`, `[model]`, '
        "`[method]` and `[server]` are imported and called, from the working directory too: "
        '`name = "os:system"` runs. Run a study of '
        "somebody else's as you would run their script: after reading it. `fedhpo tune`, `advise`, `table "
        "build` and `resume` run what it names (`resume` what the run's record names). `fedhpo report`, "
        "`fedhpo runs` and `fedhpo.load_table` only read: they import nothing that a run or a table names, "
        "and follow no links out of a run's directory.",
        "## Top level",
        _keys(
            whole,
            {name: sections[name] for name in TOP},
            (),
        ),
        *_section(whole, "data"),
        _names(
            "data set",
            ((name, one.description, _options(one.options)) for name, one in data.DATASETS.items()),
        ),
        _names(
            "`partition.kind`", ((name, _about(kind), _fields(kind)) for name, kind in PARTITIONS.items())
        ),
        _names("`split.kind`", ((name, _about(kind), _fields(kind)) for name, kind in SPLITS.items())),
        *_section(whole, "model"),
        _models(),
        _learners(),
        'Or it is a trainee of your own, `"package.module:Name"`: a dataclass with `first`, `train` and '
        "`evaluate` (`fedhpo.parties.trainee`), whose fields are keys here; `fedhpo.nvflare:Script` is one, "
        "for a script of NVFlare's Client API. It runs in this process, in workers, on Ray, over Flower and "
        "over NVFlare.",
        *_section(whole, "app"),
        *_section(whole, "job"),
        *_section(whole, "client"),
        *_section(whole, "server"),
        *_section(whole, "space"),
        _space(),
        "## `[method]`",
        "`name` and the method's settings; [`auto`](methods/auto.md), which chooses by rule, if the section "
        "is left out.",
        'A name of your own, `"package.module:Name"`, or one that an installed package brings by an entry '
        "point, is a dataclass that inherits from `fedhpo.Method`: its fields are the section's keys. See "
        "[your own](your-own.md).",
        *(part for name, kind in METHODS.items() for part in _method(name, kind)),
        *_tuner(),
        *(part for name in ("objective", "evaluation") for part in _section(whole, name)),
        *_section(whole, "evaluation", "privacy"),
        *_section(whole, "budget"),
        *_section(whole, "federation"),
        "See [clients that come and go](availability.md).",
        "## `[place]`",
        "Where parties are asked in a simulation, by messages as over Flower: `name` and its settings. "
        "`process`, `workers` (`count`), `ray` (`address`, `count`), or a class of your own, "
        '`"package.module:Name"`, whose fields are keys here (`fedhpo.workers.place`). Left out, torch '
        "models have the simulator, which is faster; what parties train has `--workers` and `--ray`.",
        *_section(whole, "proxy"),
        *_section(whole, "proxy", "budget"),
        *_section(whole, "flower"),
        *_section(whole, "nvflare"),
    ]
    return "\n\n".join(piece for piece in pieces if piece) + "\n"


def _section(whole: Mapping[str, Any], *names: str) -> list[str]:
    found: Mapping[str, Any] = whole
    for name in names:
        found = resolve(whole, _direct(found["properties"][name]))
    keys = _keys(whole, found.get("properties", {}), found.get("required", ()))
    return [f"{'#' * (1 + len(names))} `[{'.'.join(names)}]`", found.get("description", ""), keys]


def _direct(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return schema["allOf"][0] if "allOf" in schema else schema


def _keys(whole: Mapping[str, Any], properties: Mapping[str, Any], required: Iterable[str]) -> str:
    described = any("description" in one for one in properties.values())
    head = ["key", "allowed", "default", *(["meaning"] if described else [])]
    rows = []
    for key, one in properties.items():
        default = "required" if key in required else _default(one.get("default"))
        meaning = [one.get("description", "")] if described else []
        rows.append([f"`{key}`", _allowed(resolve(whole, one)), default, *meaning])
    return _table(head, rows)


def _allowed(schema: Mapping[str, Any]) -> str:
    named = any(len(one.get("enum", ())) > 5 for one in schema.get("anyOf", ()))
    return "one of those below, or your own" if named else allowed(schema)


def _default(value: Any) -> str:
    if value is None or value == {}:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else repr(value)}`"


def _method(name: str, kind: type[Any]) -> list[str]:
    section = section_of(kind).model_json_schema()
    keys = _keys(section, section.get("properties", {}), section.get("required", ()))
    return [f"### `{name}`", section.get("description", ""), keys]


def _tuner() -> list[str]:
    """A tuner that is put together from its parts."""
    return [
        "### Put together from parts",
        'Without `name` (or with `"tuner"`) the section puts a tuner together: a `schedule` (required), a '
        "`sampler` (random if left out), a client `policy` (fixed if left out), each a table with its "
        "`name`, or that of your own, and its settings; and maybe an `exchange` between trials, FedPop's.",
        "```toml\n"
        "[method]\n"
        'schedule = { name = "halving", trials = 9 }\n'
        'sampler = { name = "tpe", gamma = 0.2 }\n'
        'policy = { name = "fedex", arms = 9 }\n'
        "```",
        *(part for key, registry in parts.items() for part in _parts(key, registry.ours)),
        "#### `exchange`",
        f"Its keys, with defaults: {_settings(Exchange)}.",
    ]


def _parts(key: str, ours: Mapping[str, type[Any]]) -> list[str]:
    rows = ((name, _about(kind), _settings(kind)) for name, kind in ours.items())
    return [f"#### `{key}`", _names("name", rows)]


def _settings(kind: type[Any]) -> str:
    """The fields that a file can hold, with their defaults."""
    members = section_of(kind).model_fields
    return _options({name: "required" if one.is_required() else one.default for name, one in members.items()})


def _models() -> str:
    rows = [[f"`{name}`", _options(hyperparameter_defaults(name))] for name in MODELS]
    return _table(["model", "hyperparameters of its shape, with defaults"], rows)


def _learners() -> str:
    rows = [
        [f"`{name}`", _options(OPTIONS_OF_ESTIMATOR if name == ESTIMATOR else OPTIONS)] for name in LEARNERS
    ]
    return "\n\n".join(
        [
            "Or it is a learner, for tabular data: one round is one whole training. An empty `[space]` "
            "stands for the learner's own. Further keys are fixed arguments of the estimator; `training` is "
            '`"pooled"` or, of boosted trees, `"collective"`, `"bagging"` or `"cyclic"` (the last two in as '
            'many `trips` as you say), or of an MLP `"averaging"`: these three give the same bits in a '
            "simulation, in workers, on Ray and over Flower and NVFlare; `scoring` a scorer of scikit-learn "
            "(balanced accuracy if left out, r2 for regression), `scaling` minmax, standard or fitted, see "
            "`fedhpo.LearnerFederation`.",
            _table(["learner", "its keys, with defaults"], rows),
        ]
    )


def _space() -> str:
    forms = inspect.getdoc(Space.from_dict) or ""
    forms = forms[forms.index("A table is") : forms.index(">>>")].strip()
    servers = [[f"`{name}`", _fields(kind)] for name, kind in OPTIMISERS.items()]
    return "\n\n".join(
        [
            forms,
            f"Client hyperparameters, with the values they have where they are left out: {_fields(Local)}.",
            "Server hyperparameters by optimiser (`optimiser` itself may be tuned too):",
            _table(["optimiser", "hyperparameters, with defaults"], servers),
            "Trial 0 is your own config: the defaults of this section and the fixed values.",
            'Ranges for those who do not know them, `use = "sgd"` or `use = ["adamw", "fedprox"]` (in Python '
            '`fh.Space.suggested("sgd")`). What `[client]`, `[model]` and the scopes say replaces them; '
            "a value in a scope, such as `epochs = 1`, fixes it:",
            _table(["`use`", "for", "hyperparameters", "ranges of"], _suggested()),
        ]
    )


def _suggested() -> list[list[str]]:
    return [
        [
            f"`{name}`",
            one.about,
            ", ".join(
                f"`{scope}.{key}` {_ranges(value)}"
                for scope, table in one.scopes.items()
                for key, value in table.items()
            ),
            one.source,
        ]
        for name, one in SUGGESTED.items()
    ]


def _ranges(value: Any) -> str:
    """A hyperparameter in a few words."""
    found = ends(value)
    if isinstance(value, Float | Int):
        return f"{found[0]:g} to {found[1]:g}{', log' if value.log else ''}"
    return ", ".join(map(str, found))


def _names(kind: str, rows: Iterable[tuple[str, str, str]]) -> str:
    return _table(
        [kind, "what it is", "its keys, with defaults"], [[f"`{n}`", about, keys] for n, about, keys in rows]
    )


def _about(kind: type[Any]) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _fields(kind: type[Any]) -> str:
    return _options({f.name: "required" if f.default is MISSING else f.default for f in fields(kind)})


def _options(options: Mapping[str, Any]) -> str:
    shown = (
        f"`{key}`" if value == "required" else f"`{key} = {_toml(value)}`" for key, value in options.items()
    )
    return ", ".join(shown)


def _toml(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
