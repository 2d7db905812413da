"""From what a user names to a side: a study file, a run, an app, a job or a function."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.core.objects import import_object, is_own
from fedhpo.federations.apps.app_file import is_app, read_app
from fedhpo.federations.jobs.job_file import is_job
from fedhpo.protocol.objective import CLIENTS, SERVER, Objective
from fedhpo.referee.sides.federated import FederatedSide
from fedhpo.referee.sides.function import FunctionSide
from fedhpo.referee.sides.job import JobSide
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
    jobs that do not say them, `setup` and `source` as `app.setup` and `objective.from` of a study. `trained`
    is for jobs, see `JobSide`.
    """

    metric: str | None = None
    direction: str | None = None
    clients: int | None = None
    rounds: int | None = None
    cohort: int | None = None
    setup: str | None = None
    workers: int | None = None
    source: str | None = None
    trained: bool = False
    #: The digest that a study must have, see `fedhpo.study.unchanged`; None for any.
    checked: str | None = None

    @property
    def maximise(self) -> bool | None:
        """Whether more is better; None where nothing is said."""
        return None if self.direction is None else self.direction == "maximize"

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


#: The kinds of sides that take an option; it is refused where none does.
TAKEN_BY: dict[str, tuple[str, ...]] = {
    "metric": (APP, JOB, FUNCTION),
    "direction": (APP, JOB, FUNCTION),
    "clients": (APP, JOB),
    "rounds": (APP, JOB),
    "cohort": (APP, JOB),
    "setup": (APP, JOB),
    "source": (APP, JOB),
    "trained": (JOB,),
}


def check_options(sources: Iterable[Any], options: Options) -> None:
    """Refuse an option that no side takes."""
    kinds = {kind_of(str(one)) if isinstance(one, str | Path) else _made(one) for one in sources}
    for name, takers in TAKEN_BY.items():
        value = getattr(options, name)
        if value not in (None, False) and not kinds & set(takers):
            shown = "from" if name == "source" else name
            raise InputError(
                f"{shown} = {value!r}: is for {' and '.join(f'a {one}' for one in takers)}: what is compared "
                "here says it itself"
            )


def _made(source: Any) -> str:
    return STUDY if isinstance(source, Study) else FUNCTION


def kind_of(source: str) -> str:
    """What a name names."""
    path = Path(source)
    if path.is_file():
        return JOB if path.suffix == ".py" else STUDY
    if path.is_dir():
        if (path / RECORD).is_file():
            return RUN
        if is_app(path):
            return APP
        if is_job(path):
            return JOB
        raise InputError(
            f"{source}: holds no run (record.sqlite), no Flower app (pyproject.toml) and no NVFlare job "
            "(job.py or meta.json)"
        )
    first, *rest = _words(source)
    if rest and Path(first).exists() and kind_of(first) == JOB:
        return JOB
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
        return _job(name, options)
    return _function(import_object(name, "candidate"), name, options)


def _function(function: Callable[..., Any], name: str, options: Options) -> FunctionSide:
    return FunctionSide(function, name, options.metric, options.maximise)


def _words(source: str) -> list[str]:
    """A job's path and what follows it: arguments of its own."""
    try:
        return [source] if Path(source).exists() else shlex.split(source) or [source]
    except ValueError:
        return [source]


def _job(source: str, options: Options) -> JobSide:
    path, *arguments = _words(source)
    source_of: Any = options.source or CLIENTS
    objective = Objective(options.metric or "accuracy", direction=options.direction, from_=source_of)
    if objective.from_ == SERVER:
        raise InputError(f"{path}: from = 'server': the server of an NVFlare job scores nothing")
    if options.trained and objective.from_ == CLIENTS:
        raise InputError("trained: goes with from = 'training'")
    more: dict[str, Any] = {"rounds": options.rounds, "clients": options.clients, "setup": options.setup}
    side = JobSide(path, arguments, objective, trained=options.trained, **more)
    if options.cohort not in (None, side.terms.cohort):
        raise InputError(
            f"cohort = {options.cohort}: {side.terms.name} trains its {side.terms.cohort} sites each round"
        )
    return side


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
