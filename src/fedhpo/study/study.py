"""`Study`: a study file, checked."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.aggregation.own_rule import rule_of
from fedhpo.aggregation.presets import PRESETS, SAFE
from fedhpo.core.claims import refuse, refuse_unhonoured, warning_only
from fedhpo.core.errors import Concerns, InputError
from fedhpo.core.objects import import_object
from fedhpo.engine.hyperparameters import Local
from fedhpo.federations.apps.app_file import read_app
from fedhpo.federations.apps.block import write_block
from fedhpo.federations.apps.tables import check_app_space, dotted_tables, with_app_defaults
from fedhpo.federations.fleet import Fleet
from fedhpo.methods import FedTune, NoTuning, RandomSearch, Tuner
from fedhpo.protocol.criteria import Criteria
from fedhpo.protocol.federation import QUERY
from fedhpo.protocol.method import ONE_TRAINING, Method
from fedhpo.protocol.objective import (
    BALANCED,
    Objective,
    check_source,
    natural_objective,
    objective_of,
)
from fedhpo.protocol.own_metric import own_metric
from fedhpo.search.evaluator import Evaluator
from fedhpo.space import Space
from fedhpo.space.suggested import with_suggested
from fedhpo.study.app import app_options, said_of_app
from fedhpo.study.checks import (
    check_app,
    check_clients,
    check_data,
    check_model,
    check_server,
    check_space,
)
from fedhpo.study.from_dataclass import build
from fedhpo.study.learners import check_learner, is_learner, learner_federation, learner_tables
from fedhpo.study.loading import dealt_data, model_for
from fedhpo.study.methods import method_in
from fedhpo.study.parts import (
    FLOWER,
    PLACES,
    SIMULATION,
    TABLE,
    refuse_anywhere,
    refuse_other_training,
    refuse_without_effect,
    said_of_training,
    set_aside,
    trainee_of,
)
from fedhpo.study.plain import plain
from fedhpo.study.problems import problems
from fedhpo.study.proxied import Proxied, proxied_by
from fedhpo.study.renamed import with_new_keys
from fedhpo.study.sections import ProxyBudget, StudyFile
from fedhpo.study.text import with_key
from fedhpo.study.trainees import check_trainee, trainee_in
from fedhpo.tuning.arguments import checked_enqueue
from fedhpo.tuning.objectives import check_criteria, objectives_of

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.methods.fedtune import ReferenceTable
    from fedhpo.parties.trainee import Trainee
    from fedhpo.protocol.federation import Federation
    from fedhpo.tuning.plan import TimePlan
    from fedhpo.tuning.result import Result


#: Keys that change no search.
_BESIDE = ("name", "flower", "nvflare")
_ONCE = "which lets every client count once"
#: Further keys, by table.
_KEYS_BESIDE = (("budget", "timeout"), ("app", "path"))


@dataclass(frozen=True)
class Study:
    """What to tune, on which data and model, with which method and budget.

    >>> study = Study.from_dict({
    ...     "data": {"name": "digits", "clients": 20},
    ...     "model": {"name": "mlp"},
    ...     "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True}}},
    ...     "budget": {"rounds": 10},
    ... })
    >>> study.method, study.space.names
    (Auto(), ('client.lr',))
    """

    given: Mapping[str, Any]
    file: StudyFile
    text: str | None = None
    path: Path | None = None
    #: Whether it comes from a run's record.
    recorded: bool = False
    #: Whether it may have nothing to tune: its own config is trained as it is.
    fixed: bool = False

    @classmethod
    def load(cls, path: str | Path, *, app: str | Path | None = None, fixed: bool = False) -> Study:
        """Read and check a study file; every mistake is an `InputError` that names file and key.

        `app` is the directory of a Flower app, in place of the file's `app.path`. One that is `fixed` may
        have nothing to tune.
        """
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: {error.strerror or error}") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not a text file in UTF-8 ({error.reason})") from None
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"{path}: not TOML: {error}") from None
        except RecursionError:
            raise InputError(f"{path}: not a study: its values are nested too deeply") from None
        except ValueError as error:  # whole numbers of thousands of digits
            raise InputError(f"{path}: not TOML: {error}") from None
        if app is not None:
            section = given.get("app", {})
            given["app"] = {**(section if isinstance(section, dict) else {}), "path": str(app)}
        return cls.from_dict(given, text=text, path=path, fixed=fixed)

    @classmethod
    def from_dict(
        cls,
        given: Mapping[str, Any],
        *,
        text: str | None = None,
        path: str | Path | None = None,
        recorded: bool = False,
        fixed: bool = False,
    ) -> Study:
        """Check a study given as tables; `path` leads the error messages.

        One that was `recorded` may hold settings without effect, which older versions accepted.
        """
        where = f"{path}: " if path else ""
        try:
            given = with_suggested(with_new_keys(plain(given)))
            study = cls(given, _file(given), text, Path(path) if path else None, recorded, fixed)
            with study._lenient():
                study._check()
        except ValidationError as error:
            raise InputError("\n".join(where + line for line in problems(error, StudyFile))) from None
        except InputError as error:
            raise InputError("\n".join(where + line for line in str(error).splitlines())) from None
        return study

    def _check(self) -> None:
        check_server(self.file.server)
        self.file.client.refuse_uncounted("client")
        refuse_anywhere(self.file, self.given)
        if self.file.app is None:
            check_source(self.objective)
            check_data(self.file.data)
        if self.file.app is not None:
            check_app(self.file)
            if not self.fixed:
                check_app_space(self.given["space"])
            _ = self.space
        elif is_learner(self.file.model):
            check_learner(self.file, self.space)
        elif self.trainee is not None:
            check_trainee(self.trainee, self.space)
        else:
            check_model(self.file.model, self.file.space.model)
            fixed = self.fixed or self.file.budget.tuning is not None
            check_space(self.space, self.file.server, self.file.client, fixed=fixed)
        if self.file.place is not None:
            from fedhpo.study.places import place_in

            place_in(self)
        _ = self.method, self.objective, self.evaluator, self.proxy_study, self.fleet
        checked_enqueue(self.file.enqueue, self.space)
        if self.file.enqueue and self.method.trains_once:
            refuse([f"enqueue: {ONE_TRAINING.format(self.method.name)}: leave it out"])
        check_criteria(self.criteria, self.method, self.evaluator)
        if self.evaluator.privacy is not None and self._weighting == "size":
            raise InputError("server.weighting = 'size': must be 'uniform' where [evaluation.privacy] is set")
        if self.evaluator.privacy is not None and self.given.get("objective", {}).get("weighting") == "size":
            raise InputError(
                "objective.weighting = 'size': leave it out where [evaluation.privacy] is set, all clients "
                "count the same then"
            )
        for name, remote in (("flower", self.file.flower), ("nvflare", self.file.nvflare)):
            if remote.hold_replies >= remote.deadline:
                raise InputError(
                    f"{name}.hold_replies = {remote.hold_replies:g}: must be less than {name}.deadline "
                    f"({remote.deadline:g}), after which a reply is too late"
                )
        budget = self.file.budget
        if budget.total is not None and self.method.trains_once:
            refuse([f"budget.total = {budget.total}: {ONE_TRAINING.format(self.method.name)}: leave it out"])
        if budget.total is not None and budget.total < budget.rounds:
            raise InputError(
                f"budget.total = {budget.total}: must be at least budget.rounds ({budget.rounds}), "
                "as the final training is part of it"
            )

    def to_dict(self) -> dict[str, Any]:
        """The study as given, JSON-able, without what changes no search.

        That is its name, the time limit, [flower], and where an app lies, whose code counts.
        """
        given = {key: value for key, value in self.given.items() if key not in _BESIDE}
        for table, key in _KEYS_BESIDE:
            if table in given:
                given[table] = {name: value for name, value in given[table].items() if name != key}
        return given

    def beside(self, federation: Federation | None = None) -> dict[str, Any]:
        """What `to_dict` leaves out, and where it runs: kept in the record to go on in the same way."""
        said = self.said(federation)
        return {
            **({"said": said} if said else {}),
            "tables": {key: value for key, value in self.given.items() if key in _BESIDE},
            **{
                table: {key: self.given[table][key]} if key in self.given.get(table, {}) else {}
                for table, key in _KEYS_BESIDE
            },
            "directory": os.getcwd(),
            "federation": None if federation is None else type(federation).__name__,
        }

    def with_seed(self, seed: int) -> Study:
        """The same study with another seed, in its text too."""
        return self._with("seed", seed)

    def with_device(self, device: str) -> Study:
        """The same study trained on another device, in its text too."""
        return self._with("device", device)

    def _with(self, key: str, value: Any) -> Study:
        if value == getattr(self.file, key):
            return self
        given = {**self.given, key: value}
        text = None if self.text is None else with_key(self.text, key, value)
        return Study.from_dict(given, text=text, path=self.path)

    @property
    def name(self) -> str:
        """The study's own name, or that of its file."""
        return self.file.name or (self.path.stem if self.path else "study")

    @cached_property
    def trainee(self) -> Trainee | None:
        """What is trained, where [model] names a class of the user's own for it."""
        return None if self.file.app is not None else trainee_in(self.file.model)

    @cached_property
    def space(self) -> Space:
        """The space, with the fixed hyperparameters of [model] in its scope `model`.

        A learner's own where [space] is empty.
        """
        tables = {scope: table for scope, table in self.given["space"].items() if table}
        if self.file.app is not None:
            app = read_app(self.file.app.path)
            tables = with_app_defaults(dotted_tables(tables, app), app)
        elif is_learner(self.file.model):
            tables = learner_tables(self.file.model, tables)
        elif self.trainee is None:
            for scope, given in (("model", self.file.model.others), ("client", self._local)):
                if given:
                    fixed = {key: {"value": value} for key, value in given.items()}
                    tables[scope] = {**fixed, **tables.get(scope, {})}
        return Space.from_dict(tables)

    @property
    def _local(self) -> dict[str, Any]:
        """The hyperparameters of local training that stand in [client]."""
        known = {f.name for f in fields(Local)}
        found = {key: value for key, value in self.given.get("client", {}).items() if key in known}
        for key in found:
            if key in self.given["space"].get("client", {}):
                raise InputError(
                    f"client.{key} is fixed here and also in space.client.{key}: keep one of them"
                )
        return found

    @cached_property
    def method(self) -> Method | Tuner:
        """The method; `auto` if the file names none, proxy search if it has proxy data."""
        if self.file.budget.tuning is not None:
            for section in ("method", "proxy"):
                if self.given.get(section):
                    refuse([f"{section}: has no effect beside budget.tuning = 'none': leave one of them out"])
            return NoTuning()
        if self.proxy_study is None:
            return method_in(self._with_files(self.file.method))
        return self._proxied.method(self._with_files(self.file.method), self.proxy_study, None, ())

    @cached_property
    def _proxied(self) -> Proxied:
        """What is done with proxy data: FedTune's table, or a search."""
        return proxied_by(self.file.method)

    def _with_files(self, method: Mapping[str, Any]) -> Mapping[str, Any]:
        """The section with its files where they are: in the working directory, or beside the study."""
        found = {**method}
        for part in ("policy", "sampler"):
            if isinstance(found.get(part), Mapping):
                found[part] = self._with_files(found[part])
        for key in ("file", "table", "availability", "devices"):
            name = found.get(key)
            if self.path is not None and isinstance(name, str) and not Path(name).is_file():
                here = self.path.parent / name
                found[key] = str(here) if here.is_file() else name
        return found

    @cached_property
    def proxy_study(self) -> Study | None:
        """The search on proxy data as a study of its own: all its scores are free, so it takes them all."""
        proxy = self.file.proxy
        if proxy is None:
            return None
        given = self.given["proxy"]
        self._proxied.check(self.file.method, given)
        budget = {
            key: value for key, value in self.given["budget"].items() if key in ProxyBudget.model_fields
        }
        tables = {
            **{
                key: table
                for key, table in self.given.items()
                if key in ("client", "model", "server", "space", "seed")
            },
            "data": given["data"],
            "method": {"name": RandomSearch.name, **given.get("method", {})},
            "objective": self.given.get("objective", {}),
            "budget": {**budget, **given.get("budget", {}), **self._proxied.budget},
        }
        try:
            return Study.from_dict(tables)
        except InputError as error:
            lines = (line.removeprefix("proxy.") for line in str(error).splitlines())
            raise InputError("\n".join(f"proxy.{line}" for line in lines)) from None

    def fill_table(
        self,
        directory: str | Path | None = None,
        *,
        workers: int | None = None,
        after_step: Callable[[], Any] = lambda: None,
    ) -> ReferenceTable:
        """FedTune's reference table alone, without a training; what `directory` keeps is not done again."""
        if self.proxy_study is None or not self._proxied.fills_table:
            need = InputError("a reference table needs method.name = 'fedtune' and [proxy.data]")
            raise self._error("", need)
        method = self._proxied.method(self.file.method, self.proxy_study, workers, ())
        assert isinstance(method, FedTune)
        try:
            return method.fill(self.space, self.file.seed, directory, after_step)
        except InputError as error:
            raise self._error("", error) from error

    @cached_property
    def objective(self) -> Objective:
        """What is optimised; the first of several objectives."""
        if self.file.objectives is not None:
            if "objective" in self.given:
                raise InputError(
                    "objectives: leave out [objective], or write its keys into a table of objectives"
                )
            return objectives_of(None, self.file.objectives, ())[0]
        given = self.file.objective.model_dump(exclude_unset=True)
        if is_learner(self.file.model) and "metric" not in given:
            scoring = self.file.model.others.get("scoring") or BALANCED
            given = {"metric": objective_of(scoring).metric, **given}
        own = own_metric(given.get("metric"), "objective.metric")
        if own is not None:
            given = {"direction": "maximize" if own.maximise else "minimize", **given}
        return build(Objective, given, "objective")

    @cached_property
    def criteria(self) -> Criteria:
        """What trials are judged by besides: further objectives, and constraints."""
        first, several = self.objective, self.file.objectives
        return objectives_of(first if several is None else None, several, self.file.constraints)[1]

    def objective_in(self, federation: Federation) -> Objective:
        """What is optimised; where the file names no metric, what goes with the federation's targets."""
        if self.file.app is not None or "metric" in self.file.objective.model_fields_set:
            return self.objective
        return replace(self.objective, metric=natural_objective(federation).metric)

    @cached_property
    def evaluator(self) -> Evaluator:
        """How a score is observed."""
        return build(Evaluator, self.file.evaluation.model_dump(exclude_unset=True), "evaluation")

    @cached_property
    def fleet(self) -> Fleet | None:
        """When clients are there and how fast they are, where the simulation has a clock."""
        if self.file.federation is None:
            return None
        if self.evaluator.privacy is not None:
            raise InputError(
                "federation: leave it out where [evaluation.privacy] is set; epsilon is divided among "
                "clients beforehand, and who will be there is not known then"
            )
        given = self._with_files(self.given["federation"])
        return build(Fleet, given, "federation")

    def refuse_clock(self, what: str) -> None:
        """Refuse `[federation]` where nothing takes simulated time."""
        if self.fleet is not None:
            raise self._error("", InputError(f"federation: leave it out for {what}, which has no clock"))

    def load_data(self) -> FederatedData:
        """Read the data, or make it by the user's function; then deal validation rows anew, if asked to."""
        from fedhpo.core.streams import stream
        from fedhpo.data.mixing import mix_validation

        data = self.file.data
        try:
            dealt = dealt_data(data, self.given["data"])
        except InputError as error:
            raise self._error("", error) from error
        return mix_validation(dealt, data.mixing, stream(data.seed, "redeal"))

    def federation(
        self, workers: int | None = None, *, data: FederatedData | None = None, ray: str | None = None
    ) -> Federation:
        """The simulated federation that the study describes, or the same with other `data`.

        `ray` is the address of a Ray cluster that trains, see `fedhpo.simulate`.
        """
        if self.file.app is not None:
            return self._app_federation(workers, ray)
        from fedhpo.federations.simulate import simulate

        self.check_place(SIMULATION)
        data, server = self.load_data() if data is None else data, self.file.server
        try:
            check_clients(data, self.file.budget.cohort, self.evaluator.clients)
            if self.file.place is not None or self.trainee is not None:
                from fedhpo.study.places import parties_federation

                return parties_federation(self, data, workers, ray)
            if is_learner(self.file.model):
                joined = partial(self.aggregation, default=Aggregation())
                return learner_federation(self.file.model, data, workers, ray, joined)
            how = self.aggregation(default=Aggregation())
            return simulate(
                model_for(self.file.model.name, self.space.default().model, data),
                data,
                server=server.optimiser,
                strategy=server.strategy,
                weighting=how.weighting,
                aggregation=how.own or how.rule,
                trim=how.trim,
                clip_norm=how.clip_norm,
                weight_cap=how.weight_cap,
                train=self.own_training,
                workers=workers,
                device=self.file.device,
                fleet=self.fleet,
                ray=ray,
            )
        except InputError as error:
            raise self._error("", error) from error

    def _app_federation(self, workers: int | None, ray: str | None) -> Federation:
        """The study's Flower app, with its nodes in this process, in so many workers or on a Ray cluster."""
        from fedhpo.federations.apps.in_process import app_in_process

        app, cap = self.file.app, self.file.server.weight_cap
        assert app is not None
        self.check_place(FLOWER)
        settings = self.file.flower.model_dump(exclude={"clients"}, exclude_unset=True)
        try:
            if "clients" in self.file.flower.model_fields_set:
                refuse(["flower.clients: has no effect in this process, app.clients counts: leave it out"])
            return app_in_process(
                app.path,
                app.clients,
                self.objective,
                app.setup,
                app.node_config,
                workers=workers,
                ray=ray,
                weight_cap=cap,
                **app_options(self.file, self.space, self.method),
                **settings,
            )
        except InputError as error:
            raise self._error("", error) from error

    def aggregation(self, default: Aggregation) -> Aggregation:
        """How updates are put together: as the file says, `default` where it names no rule.

        Other keys of the section go before what a preset, or the default, says of them.
        """
        server = self.file.server
        given = server.aggregation
        start = default if given is None else PRESETS.get(given) if isinstance(given, str) else None
        if start is None and given is not None:
            rule, own = rule_of(given, (*Aggregation.RULES, *PRESETS), "server.aggregation")
            start = Aggregation(rule=rule, own=own)
        keys = server.model_fields_set & {"trim", "clip_norm", "weight_cap"}
        assert start is not None
        found = replace(start, weighting=self._weighting, **{key: getattr(server, key) for key in keys})
        if server.strategy is None:
            refuse_unhonoured(found, "server", server.model_fields_set, {"rule": "aggregation"})
            if "weighting" in server.model_fields_set and found.counts_once and found.weighting == "size":
                refuse([f"server.weighting = 'size': has no effect with {found.rule}, {_ONCE}: leave it out"])
        return found

    def check_place(self, place: str) -> None:
        """Refuse keys that nobody honours where the study is to run; see `fedhpo.study.parts`."""
        with self._lenient():
            try:
                refuse_without_effect(self.file, self.given, place)
            except InputError as error:
                raise self._error("", error) from None

    def said(self, federation: Federation | None = None) -> list[str]:
        """The run's notes: sections that are set aside, and a training that is a default."""
        place = federation.place if federation is not None else FLOWER if self.file.app else SIMULATION
        if place not in PLACES:
            return []
        return [
            *set_aside(self.given, place),
            *said_of_training(self.file, place),
            *said_of_app(self.file, self.space),
            *self._said_of_weighting(place),
        ]

    def _said_of_weighting(self, place: str) -> list[str]:
        """That clients count the same anyway, where a rule is not moved by what the study says."""
        weighs = trainee_of(self.file, place).honours("server.aggregation") and place != TABLE
        if (
            not weighs
            or self.given.get("server", {}).get("weighting") != "uniform"
            or self.file.server.strategy
        ):
            return []
        how = self.aggregation(default=Aggregation() if place == SIMULATION else SAFE)
        return [f"server.weighting: has no effect with {how.rule}, {_ONCE}"] if how.counts_once else []

    def _lenient(self) -> AbstractContextManager[None]:
        """A run that was begun with settings which were ignored goes on: see `RecordedStudy`."""
        return warning_only() if self.recorded else nullcontext()

    @property
    def _weighting(self) -> str:
        """How training weighs clients: as the file says, uniform where scores are private."""
        server = self.file.server
        private = self.evaluator.privacy is not None
        return "uniform" if private and "weighting" not in server.model_fields_set else server.weighting

    @property
    def own_training(self) -> Callable[..., Any] | None:
        """The user's function that trains at a client in place of SGD, if the file names one."""
        name = self.file.client.train
        return None if name is None else import_object(name, "client.train")

    def tune(
        self,
        run: str | Path | None = None,
        *,
        workers: int | None = None,
        ray: str | None = None,
        timeout: float | None = None,
        callbacks: Sequence[Any] = (),
        on_interrupt: Literal["raise", "return"] = "raise",
        federation: Federation | None = None,
    ) -> Result:
        """Tune it; with a `run`, resume what was begun there. What signals do: see `fedhpo.tune`.

        A `federation`, such as a table's, takes the place of the one that the study describes. It stays
        open.
        """
        from fedhpo.tuning.origin import Origin, comes_from
        from fedhpo.tuning.tune import tune

        if federation is not None:
            self._check_recorded_by(federation)
        with (
            self._lenient(),
            self.federation(workers, ray=ray) if federation is None else nullcontext(federation) as opened,
            comes_from(Origin(self.to_dict(), self.text, self.beside(federation))),
        ):
            try:
                result = tune(
                    opened,
                    self.space,
                    self._method_on(workers, callbacks),
                    **self._asked_of(opened),
                    seed=self.file.seed,
                    run=run,
                    callbacks=callbacks,
                    timeout=timeout if timeout is not None else self.file.budget.timeout,
                    on_interrupt=on_interrupt,
                    enqueue=self.file.enqueue,
                )
                if self.file.app is not None and result.run is not None and result.status == "finished":
                    write_block(result.run, read_app(self.file.app.path), result.best_config)
                return result
            except InputError as error:
                if error.concerns == Concerns.RUN:
                    raise
                raise self._error("", error) from error

    def _check_recorded_by(self, federation: Federation) -> None:
        """On a table, what the study says of training must be what was recorded."""
        if federation.place != TABLE:
            return
        table: Any = getattr(federation, "table")  # noqa: B009  # tables are above studies
        with self._lenient():
            try:
                refuse_other_training(self.given, table.study_tables, table.name)
                if self.space != table.space:
                    refuse([f"space: has no effect on table {table.name} unless it is the table's own"])
            except InputError as error:
                raise self._error("", error) from None

    def preflight(self, federation: Federation) -> None:
        """Try one batch of one client; see `fedhpo.engine.preflight`."""
        try:
            federation.preflight(self.space.default(), self.objective_in(federation).metric)
        except InputError as error:
            raise self._error("", error) from error

    def plan(self, draws: int = 5, *, federation: Federation | None = None) -> TimePlan:
        """What it will cost, and how long it will take by its clients' clock. See `fedhpo.tuning.plan`.

        Without `[federation]` the study does not say how fast clients are: its seconds then mean nothing.
        A simulated `federation` with a fleet takes the place of the one that the study describes.
        """
        from fedhpo.federations.simulated import SimulatedFederation
        from fedhpo.tuning.plan import plan_time

        with self.federation(workers=0) if federation is None else nullcontext(federation) as opened:
            if not isinstance(opened, SimulatedFederation):
                need = "model: a plan goes through rounds of a torch model in a simulation, and there is none"
                raise self._error("", InputError(need))
            if QUERY in self.method.needs:
                need = f"method {self.method.name}: its clients search on their own rows, which no plan does"
                raise self._error("", InputError(need))
            # Fine-tuning at clients comes after all that is planned.
            settings = {**self._asked_of(opened), "evaluation": replace(self.evaluator, personalised=False)}
            found: TimePlan = self._prepared(partial(plan_time, draws=draws), opened.untrained, settings)
            return found

    def check_on(self, federation: Federation) -> None:
        """Refuse what the method, the budget or the scores cannot do there, before anything is asked."""
        from fedhpo.tuning.setup import prepare

        self._prepared(prepare, federation, self._asked_of(federation))

    def _prepared(self, prepare: Callable[..., Any], where: Any, settings: Mapping[str, Any]) -> Any:
        try:
            enqueued = [self.space.default(), *checked_enqueue(self.file.enqueue, self.space)]
            method = self._method_on(0, ())
            return prepare(where, self.space, method, seed=self.file.seed, enqueued=enqueued, **settings)
        except InputError as error:
            raise self._error("", error) from error

    def _asked_of(self, federation: Federation) -> dict[str, Any]:
        """What is asked of a federation: budget, objective and scores."""
        budget = self.file.budget
        return {
            "rounds": budget.rounds,
            "total": None if self.method.trains_once else budget.total,
            "cohort": budget.cohort,
            "objective": self.objective_in(federation) if self.file.objectives is None else None,
            "objectives": self.file.objectives,
            "constraints": self.file.constraints,
            "evaluation": self.evaluator,
            "baseline": budget.baseline,
            "horizon": budget.horizon,
        }

    def _method_on(self, workers: int | None, callbacks: Sequence[Any]) -> Method | Tuner:
        """The method; what the server simulates has as many workers as the clients' training."""
        if self.proxy_study is None:
            return self.method
        settings = self._with_files(self.file.method)
        return self._proxied.method(settings, self.proxy_study, workers, callbacks)

    def _error(self, key: str, error: InputError) -> InputError:
        parts = [str(self.path) if self.path else "", key, str(error)]
        return InputError(": ".join(part for part in parts if part))


def _file(given: Mapping[str, Any]) -> StudyFile:
    """The sections, checked; a study of an app has no data and no model of its own."""
    if "app" not in given:
        return StudyFile(**given)
    for key in ("data", "model", "client", "proxy"):
        if key in given:
            raise InputError(f"{key}: leave it out where [app] names a Flower app, which brings its own")
    return StudyFile(**{"data": {}, "model": {"name": "app"}, **given})
