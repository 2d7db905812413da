"""`Study`: a study file, checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import refuse, warning_only
from fedhpo.core.errors import Concerns, InputError
from fedhpo.core.objects import import_object
from fedhpo.federations.fleet import Fleet
from fedhpo.methods import FedTune, NoTuning, Tuner
from fedhpo.protocol.criteria import Criteria
from fedhpo.protocol.federation import QUERY
from fedhpo.protocol.method import Method
from fedhpo.protocol.objective import Objective
from fedhpo.protocol.own_metric import own_metric
from fedhpo.search.evaluator import Evaluator
from fedhpo.space import Space
from fedhpo.space.suggested import with_suggested
from fedhpo.study.checks import check_study
from fedhpo.study.from_dataclass import build
from fedhpo.study.joining import aggregation_in, said_of_weighting
from fedhpo.study.kinds import Kind, kind_of
from fedhpo.study.methods import method_in
from fedhpo.study.parts import PLACES, TABLE, refuse_other_training, refuse_without_effect, set_aside
from fedhpo.study.plain import plain
from fedhpo.study.problems import problems
from fedhpo.study.proxied import Proxied, proxied_by
from fedhpo.study.reading import read_tables, with_files
from fedhpo.study.renamed import with_new_keys
from fedhpo.study.sections import StudyFile
from fedhpo.study.text import with_key
from fedhpo.tuning.arguments import checked_enqueue
from fedhpo.tuning.objectives import objectives_of

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.methods.fedtune import ReferenceTable
    from fedhpo.protocol.federation import Federation
    from fedhpo.tuning.plan import TimePlan
    from fedhpo.tuning.result import Result


#: Keys that change no search.
_BESIDE = ("name", "flower", "nvflare")
#: Sections in place of [data] and [model].
_WHOLE = {"app": "a Flower app", "job": "an NVFlare job"}
#: Further keys, by table.
_KEYS_BESIDE = (("budget", "timeout"), ("app", "path"), ("job", "path"))


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
    def load(
        cls,
        path: str | Path,
        *,
        app: str | Path | None = None,
        job: str | Path | None = None,
        fixed: bool = False,
    ) -> Study:
        """Read and check a study file; every mistake is an `InputError` that names file and key.

        `app` is the directory of a Flower app, in place of the file's `app.path`, `job` that of an NVFlare
        job. One that is `fixed` may
        have nothing to tune.
        """
        path = Path(path)
        text, given = read_tables(path)
        for name, place in (("app", app), ("job", job)):
            if place is not None:
                section = given.get(name, {})
                given[name] = {**(section if isinstance(section, dict) else {}), "path": str(place)}
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
                check_study(study)
        except ValidationError as error:
            raise InputError("\n".join(where + line for line in problems(error, StudyFile))) from None
        except InputError as error:
            lines = "\n".join(where + line for line in str(error).splitlines())
            raise InputError(lines + _where_to_go(error, path)) from None
        return study

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
    def kind(self) -> Kind:
        """What is trained, and everything that depends on it."""
        return kind_of(self)

    @cached_property
    def space(self) -> Space:
        """The space, with the fixed hyperparameters of [model] in its scope `model`.

        A learner's own where [space] is empty.
        """
        given = {scope: table for scope, table in self.given["space"].items() if table}
        return Space.from_dict(self.kind.tables(given))

    @cached_property
    def method(self) -> Method | Tuner:
        """The method; `auto` if the file names none, proxy search if it has proxy data."""
        if self.file.budget.tuning is not None:
            for section in ("method", "proxy"):
                if self.given.get(section):
                    refuse([f"{section}: has no effect beside budget.tuning = 'none': leave one of them out"])
            return NoTuning()
        if self.proxy_study is None:
            return method_in(with_files(self.file.method, self.path))
        return self._proxied.method(with_files(self.file.method, self.path), self.proxy_study, None, ())

    @cached_property
    def _proxied(self) -> Proxied:
        """What is done with proxy data: FedTune's table, or a search."""
        return proxied_by(self.file.method)

    @cached_property
    def proxy_study(self) -> Study | None:
        """The search on proxy data as a study of its own: all its scores are free, so it takes them all."""
        proxy = self.file.proxy
        if proxy is None:
            return None
        tables = self._proxied.tables(self.given, self.file.method)
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
            raise self._error(InputError("a reference table needs method.name = 'fedtune' and [proxy.data]"))
        method = self._proxied.method(self.file.method, self.proxy_study, workers, ())
        assert isinstance(method, FedTune)
        with self._named():
            return method.fill(self.space, self.file.seed, directory, after_step)

    @cached_property
    def objective(self) -> Objective:
        """What is optimised; the first of several objectives."""
        if self.file.objectives is not None:
            if "objective" in self.given:
                raise InputError(
                    "objectives: leave out [objective], or write its keys into a table of objectives"
                )
            return objectives_of(None, self.file.objectives, ())[0]
        given = self.kind.objective(self.file.objective.model_dump(exclude_unset=True))
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
        if "metric" in self.file.objective.model_fields_set:
            return self.objective
        return replace(self.objective, metric=self.kind.metric_in(federation, self.objective))

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
        given = with_files(self.given["federation"], self.path)
        return build(Fleet, given, "federation")

    def refuse_clock(self, what: str) -> None:
        """Refuse `[federation]` where nothing takes simulated time."""
        if self.fleet is not None:
            raise self._error(InputError(f"federation: leave it out for {what}, which has no clock"))

    def load_data(self) -> FederatedData:
        """Read the data, or make it by the user's function; then deal validation rows anew, if asked to."""
        from fedhpo.core.streams import stream
        from fedhpo.data.mixing import mix_validation

        data = self.file.data
        with self._named():
            dealt = self.kind.dealt()
        return mix_validation(dealt, data.mixing, stream(data.seed, "redeal"))

    def federation(
        self, workers: int | None = None, *, data: FederatedData | None = None, ray: str | None = None
    ) -> Federation:
        """The simulated federation that the study describes, or the same with other `data`.

        `ray` is the address of a Ray cluster that trains, see `fedhpo.simulate`.
        """
        self.check_place(self.kind.place)
        with self._named():
            return self.kind.federation(data, workers, ray)

    def aggregation(self, default: Aggregation) -> Aggregation:
        """How updates are put together: as the file says, `default` where it names no rule.

        Other keys of the section override those of the preset or the default.
        """
        return aggregation_in(self.file.server, self.weighting, default)

    @property
    def weighting(self) -> str:
        """How training weighs clients: as the file says, uniform where scores are private."""
        server = self.file.server
        private = self.evaluator.privacy is not None
        return "uniform" if private and "weighting" not in server.model_fields_set else server.weighting

    def check_place(self, place: str) -> None:
        """Refuse keys that nobody honours where the study is to run; see `fedhpo.study.parts`."""
        with self._lenient(), self._named():
            refuse_without_effect(self.kind, self.given, place)

    def said(self, federation: Federation | None = None) -> list[str]:
        """The run's notes: sections that are set aside, and a training that is a default."""
        place = self.kind.place if federation is None else federation.place
        if place not in PLACES:
            return []
        return [
            *set_aside(self.given, place),
            *self.kind.said(place),
            *said_of_weighting(self, place),
        ]

    def _lenient(self) -> AbstractContextManager[None]:
        """Only warn of settings without effect in a recorded run, which older versions accepted."""
        return warning_only() if self.recorded else nullcontext()

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
            self._named(),
        ):
            result = tune(
                opened,
                self.space,
                self._method_on(workers, callbacks),
                seed=self.file.seed,
                run=run,
                callbacks=callbacks,
                timeout=timeout if timeout is not None else self.file.budget.timeout,
                on_interrupt=on_interrupt,
                enqueue=self.file.enqueue,
                **self._asked_of(opened),
            )
            self.kind.finished(result)
            return result

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
            "keep": budget.keep,
            "stop": budget.stop,
            "margin": budget.margin,
        }

    def _check_recorded_by(self, federation: Federation) -> None:
        """On a table, what the study says of training must be what was recorded."""
        if federation.place != TABLE:
            return
        table: Any = getattr(federation, "table")  # noqa: B009  # tables are above studies
        with self._lenient(), self._named():
            refuse_other_training(self.given, table.study_tables, table.name)
            if self.space != table.space:
                refuse([f"space: has no effect on table {table.name} unless it is the table's own"])

    def preflight(self, federation: Federation) -> None:
        """Try one batch of one client; see `fedhpo.engine.preflight`."""
        with self._named():
            federation.preflight(self.space.default(), self.objective_in(federation).metric)

    def plan(self, draws: int = 5, *, federation: Federation | None = None) -> TimePlan:
        """What it will cost, and how long it will take by its clients' clock. See `fedhpo.tuning.plan`.

        Without `[federation]` the study does not say how fast clients are: its seconds then mean nothing.
        A simulated `federation` with a fleet takes the place of the one that the study describes.
        """
        from fedhpo.federations.simulated import SimulatedFederation
        from fedhpo.tuning.plan import plan_time

        with (
            self.federation(workers=0) if federation is None else nullcontext(federation) as opened,
            self._named(),
        ):
            if not isinstance(opened, SimulatedFederation):
                need = "a plan goes through rounds of a torch model in a simulation, and there is none"
                raise InputError(f"model: {need}")
            if QUERY in self.method.needs:
                need = f"method {self.method.name}: its clients search on their own rows, which no plan does"
                raise InputError(need)
            # Fine-tuning at clients comes after all that is planned.
            settings = {**self._asked_of(opened), "evaluation": replace(self.evaluator, personalised=False)}
            found: TimePlan = self._prepared(partial(plan_time, draws=draws), opened.untrained, settings)
            return found

    def check_on(self, federation: Federation) -> None:
        """Refuse what the method, the budget or the scores cannot do there, before anything is asked."""
        from fedhpo.tuning.setup import prepare

        self._prepared(prepare, federation, self._asked_of(federation))

    def _prepared(self, prepare: Callable[..., Any], where: Any, settings: Mapping[str, Any]) -> Any:
        with self._named():
            enqueued = [self.space.default(), *checked_enqueue(self.file.enqueue, self.space)]
            method = self._method_on(0, ())
            return prepare(where, self.space, method, seed=self.file.seed, enqueued=enqueued, **settings)

    def _method_on(self, workers: int | None, callbacks: Sequence[Any]) -> Method | Tuner:
        """The method; what the server simulates has as many workers as the clients' training."""
        if self.proxy_study is None:
            return self.method
        settings = with_files(self.file.method, self.path)
        return self._proxied.method(settings, self.proxy_study, workers, callbacks)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Mistakes name the study's file, unless they are about the run."""
        try:
            yield
        except InputError as error:
            if error.concerns in (Concerns.RUN, Concerns.STUDY):
                raise
            raise self._error(error) from error

    def _error(self, error: InputError) -> InputError:
        where = f"{self.path}: " if self.path else ""
        return InputError(f"{where}{error}", concerns=Concerns.STUDY)


def _where_to_go(error: BaseException, path: str | Path | None) -> str:
    """What to do where a module is missing that lies beside the study, and not in the working directory."""
    cause = error.__cause__
    if path is None or not isinstance(cause, ModuleNotFoundError) or cause.name is None:
        return ""
    there, file = Path(path).parent, f"{cause.name}.py"
    if not (there / file).is_file():
        return ""
    return f": {file} lies beside the study, modules are looked up here: cd {there} first"


def _file(given: Mapping[str, Any]) -> StudyFile:
    """The sections, checked; a study of an app or a job has no data and no model of its own."""
    name = next((name for name in _WHOLE if name in given), None)
    if name is None:
        return StudyFile(**given)
    for key in ("data", "model", "client", "proxy", *_WHOLE):
        if key in given and key != name:
            raise InputError(f"{key}: leave it out where [{name}] names {_WHOLE[name]}, which brings its own")
    return StudyFile(**{"data": {}, "model": {"name": name}, **given})
