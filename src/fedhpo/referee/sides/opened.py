"""From what a user names to a side: a study file, a run, an app, a job or a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.objects import import_object, is_own
from fedhpo.federations.apps.app_file import read_app
from fedhpo.referee.sides.federated import FederatedSide
from fedhpo.referee.sides.function import FunctionSide
from fedhpo.referee.sides.ran import asked_clients, spent_rounds
from fedhpo.referee.sides.side import Side
from fedhpo.run.run import RECORD
from fedhpo.study import Study
from fedhpo.study.recorded import recorded_study
from fedhpo.study.unchanged import digest_of, load_unchanged, refuse_changed
from fedhpo.tuning.load import load_run

STUDY, RUN, APP, JOB, FUNCTION = "study", "run", "flower app", "nvflare job", "function"
#: What Flower's own templates call the share that trains.
_SHARES = ("fraction-train", "fraction-fit", "fraction_train", "fraction_fit")


@dataclass(frozen=True)
class Options:
    """What a side does not say itself.

    `metric` and `direction` are for apps, jobs and functions, `clients`, `rounds` and `cohort` for apps and
    jobs that do not say them, `setup` and `source` for apps: as `app.setup` and `objective.from` of a study.
    """

    metric: str | None = None
    direction: str | None = None
    clients: int | None = None
    rounds: int | None = None
    cohort: int | None = None
    setup: str | None = None
    workers: int | None = None
    source: str | None = None
    #: The digest that a study must have, see `fedhpo.study.unchanged`; None for any.
    checked: str | None = None

    @property
    def maximise(self) -> bool | None:
        """Whether more is better; None where nothing is said."""
        return None if self.direction is None else self.direction == "maximize"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def kind_of(source: str) -> str:
    """What a name names."""
    path = Path(source)
    if path.is_file():
        return STUDY
    if path.is_dir():
        if (path / RECORD).is_file():
            return RUN
        if (path / "pyproject.toml").is_file():
            return APP
        if any((path / name).is_file() for name in ("meta.json", "meta.conf", "meta.yml")):
            return JOB
        raise InputError(
            f"{source}: holds no run (record.sqlite), no Flower app (pyproject.toml) and no NVFlare job "
            "(meta.json)"
        )
    if is_own(source) and path.suffix != ".toml":
        return FUNCTION
    raise InputError(
        f"{source}: no such file or directory; name a study file, a run, a Flower app, an NVFlare job, or "
        "package.module:function"
    )


def open_side(source: Any, options: Options) -> Side:
    """The side in this process."""
    if isinstance(source, Study):
        return FederatedSide(source, source.name, STUDY, workers=options.workers)
    if callable(source):
        return _function(source, getattr(source, "__qualname__", "function"), options)
    if not isinstance(source, str | Path):
        raise InputError(
            f"a side must be a path, 'package.module:function', a Study or a function, not "
            f"{type(source).__name__}"
        )
    name = str(source)
    kind = kind_of(name)
    if kind == STUDY:
        study = load_unchanged(name, options.checked, fixed=True)
        return FederatedSide(study, Path(name).stem, kind, workers=options.workers)
    if kind == RUN:
        return _run(Path(name), options)
    if kind == APP:
        path = Path(name).resolve()
        return FederatedSide(app_study(path, options), path.name, kind, workers=options.workers)
    if kind == JOB:
        raise InputError(f"{name}: NVFlare jobs cannot be judged yet")
    return _function(import_object(name, "candidate"), name, options)


def _function(function: Callable[..., Any], name: str, options: Options) -> FunctionSide:
    return FunctionSide(function, name, options.metric, options.maximise)


def _run(path: Path, options: Options) -> FederatedSide:
    """A finished run: its best config, trained anew, judged where its search asked nobody."""
    found = recorded_study(path)
    if found is None:
        raise InputError(f"{path}: no run was begun there")
    refuse_changed(str(path), digest_of(found), options.checked)
    result = load_run(path)
    return FederatedSide(
        found.study(),
        path.name,
        RUN,
        config=result.best_config,
        asked=asked_clients(path),
        spent=spent_rounds(result),
        workers=options.workers,
    )


def app_study(path: Path, options: Options) -> Study:
    """A study of a Flower app as it is: nothing is tuned, so its own config is what is trained."""
    app = read_app(path, "app")
    clients = options.clients or _nodes(path) or 10
    rounds = options.rounds or app.config.get(app.rounds_key or "")
    if not isinstance(rounds, int):
        raise InputError(f"{path.name}: its run config names no number of rounds: give --rounds")
    share = _first(app.config, _SHARES)
    cohort = options.cohort or max(1, round(clients * float(share if share is not None else 1.0)))
    objective: dict[str, Any] = {"metric": options.metric or "accuracy"}
    if options.source is not None:
        objective["from"] = options.source
    if options.direction is not None:
        objective["direction"] = options.direction
    given: dict[str, Any] = {
        "app": {"path": str(path), "clients": clients},
        "space": {},
        "budget": {"rounds": rounds, "cohort": min(cohort, clients)},
        "objective": objective,
    }
    if options.setup is not None:
        given["app"]["setup"] = options.setup
    return Study.from_dict(given, fixed=True)


def _first(config: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((config[name] for name in names if name in config), None)


def _nodes(path: Path) -> int | None:
    """How many nodes the app's own simulation has, where its file says it."""
    import tomllib

    tables = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8"))
    federations = tables.get("tool", {}).get("flwr", {}).get("federations", {})
    for one in federations.values():
        found = one.get("options", {}).get("num-supernodes") if isinstance(one, dict) else None
        if isinstance(found, int):
            return found
    return None
