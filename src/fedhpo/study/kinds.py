"""What differs by the kind of study: a torch model, a learner, or a Flower app. One class a kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import refuse
from fedhpo.federations.apps.app_file import read_app
from fedhpo.federations.apps.block import write_block
from fedhpo.federations.apps.tables import check_app_space, dotted_tables, with_app_defaults
from fedhpo.protocol.objective import BALANCED, check_source, objective_of
from fedhpo.study.app import app_options, said_of_app
from fedhpo.study.checks import check_app, check_clients, check_data, check_model, check_space
from fedhpo.study.learners import check_learner, is_learner, learner_federation, learner_tables
from fedhpo.study.loading import model_for
from fedhpo.study.parts import FLOWER, SIMULATION
from fedhpo.study.sections import App

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.protocol.federation import Federation
    from fedhpo.study.study import Study
    from fedhpo.tuning.result import Result

Tables = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A study of a torch model; the other kinds differ from it."""

    study: Study

    #: Where it runs unless a federation is given.
    place: ClassVar[str] = SIMULATION
    #: Whether the metric, if none is named, follows the clients' targets.
    follows_targets: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse what cannot be trained."""
        study, file = self.study, self.study.file
        check_source(study.objective)
        check_data(file.data)
        check_model(file.model, file.space.model)
        check_space(study.space, file.server, file.client)

    def tables(self, given: Tables) -> Tables:
        """The tables of the space, with what the kind has besides."""
        fixed = {key: {"value": value} for key, value in self.study.file.model.others.items()}
        return {**given, "model": {**fixed, **given.get("model", {})}} if fixed else given

    def objective(self) -> Mapping[str, Any]:
        """Settings of the objective that are the kind's own, where the file has none."""
        return {}

    def federation(self, workers: int | None, data: FederatedData | None, ray: str | None) -> Federation:
        """The federation on this machine."""
        study, server = self.study, self.study.file.server
        data = self._enough(data)
        from fedhpo.federations.simulate import simulate

        how = study.aggregation(default=Aggregation())
        return simulate(
            model_for(study.file.model.name, study.space.default().model, data),
            data,
            server=server.optimiser,
            strategy=server.strategy,
            weighting=how.weighting,
            aggregation=how.own or how.rule,
            trim=how.trim,
            clip_norm=how.clip_norm,
            weight_cap=how.weight_cap,
            train=study.own_training,
            workers=workers,
            device=study.file.device,
            fleet=study.fleet,
            ray=ray,
        )

    def data(self, given: FederatedData | None) -> FederatedData | None:
        """The clients' rows: those given, or those that the file names."""
        return self.study.load_data() if given is None else given

    def _enough(self, data: FederatedData | None) -> FederatedData:
        """The data, if it has the clients that rounds and evaluations ask for."""
        assert data is not None
        check_clients(data, self.study.file.budget.cohort, self.study.evaluator.clients)
        return data

    def said(self) -> list[str]:
        """What the run says of it."""
        return []

    def finished(self, result: Result) -> None:
        """What is written beside the result."""


class LearnerKind(Kind):
    """A study of estimators at parties."""

    def check(self) -> None:
        """The learner takes what the space tunes."""
        check_source(self.study.objective)
        check_data(self.study.file.data)
        check_learner(self.study.file, self.study.space)

    def tables(self, given: Tables) -> Tables:
        """A learner's own space where none is given."""
        return learner_tables(self.study.file.model, given)

    def objective(self) -> Mapping[str, Any]:
        """What the learner scores by."""
        scoring = self.study.file.model.others.get("scoring") or BALANCED
        return {"metric": objective_of(scoring).metric}

    def federation(self, workers: int | None, data: FederatedData | None, ray: str | None) -> Federation:
        """The parties on this machine."""
        study, data = self.study, self._enough(data)
        joined = partial(study.aggregation, default=Aggregation())
        return learner_federation(study.file.model, data, workers, ray, joined)


@dataclass(frozen=True)
class AppKind(Kind):
    """A study of a Flower app that is tuned as it is."""

    app: App

    place: ClassVar[str] = FLOWER
    follows_targets: ClassVar[bool] = False

    def check(self) -> None:
        """The app can be read, and has what the space tunes."""
        check_app(self.study.file)
        check_app_space(self.study.given["space"])
        _ = self.study.space

    def tables(self, given: Tables) -> Tables:
        """With the app's own values as defaults."""
        app = read_app(self.app.path)
        return with_app_defaults(dotted_tables(given, app), app)

    def federation(self, workers: int | None, data: FederatedData | None, ray: str | None) -> Federation:
        """The app's nodes in this process, in so many workers or on a Ray cluster."""
        from fedhpo.federations.apps.in_process import app_in_process

        study, app = self.study, self.app
        settings = study.file.flower.model_dump(exclude={"clients"}, exclude_unset=True)
        if "clients" in study.file.flower.model_fields_set:
            refuse(["flower.clients: has no effect in this process, app.clients counts: leave it out"])
        return app_in_process(
            app.path,
            app.clients,
            study.objective,
            app.setup,
            app.node_config,
            workers=workers,
            ray=ray,
            weight_cap=study.file.server.weight_cap,
            **app_options(study.file, study.space, study.method),
            **settings,
        )

    def data(self, given: FederatedData | None) -> FederatedData | None:
        """The app brings its own."""
        return None

    def said(self) -> list[str]:
        """What is not as the app has it."""
        return said_of_app(self.study.file, self.study.space)

    def finished(self, result: Result) -> None:
        """The best config as a block of the app's pyproject.toml."""
        assert result.run is not None
        write_block(result.run, read_app(self.app.path), result.best_config)


def kind_of(study: Study) -> Kind:
    """The one place that asks what kind of study it is."""
    if (app := study.file.app) is not None:
        return AppKind(study, app)
    return LearnerKind(study) if is_learner(study.file.model) else Kind(study)
