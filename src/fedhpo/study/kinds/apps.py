"""Studies of a Flower app that is tuned as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import Part, refuse
from fedhpo.core.errors import InputError
from fedhpo.federations.apps.app_file import AppFile, read_app
from fedhpo.federations.apps.block import write_block
from fedhpo.federations.apps.tables import check_app_space, dotted_tables, with_app_defaults
from fedhpo.protocol.federation import SCORES_IN_ROUND
from fedhpo.protocol.objective import Objective
from fedhpo.study.kinds.kind import Kind
from fedhpo.study.parts import APP, APP_CLIENTS, FLOWER, NVFLARE, PLACES
from fedhpo.study.sections import App

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.federations.remote.base import RemoteClients
    from fedhpo.federations.remote.transport import Transport
    from fedhpo.parties.party import AskedParty
    from fedhpo.parties.rows import NodeRows
    from fedhpo.protocol.federation import Federation
    from fedhpo.study.study import Study
    from fedhpo.tuning.result import Result


class AppKind(Kind):
    """A Flower app: data, model and training are its own."""

    place: ClassVar[str] = FLOWER
    places: ClassVar[tuple[str, ...]] = (FLOWER,)

    def __init__(self, study: Study, app: App) -> None:
        super().__init__(study)
        self.section = app

    @property
    def words(self) -> str:
        """The kind in messages."""
        return "[app]"

    def as_app(self) -> AppKind:
        """It is one."""
        return self

    @property
    def app_file(self) -> AppFile:
        """The app's own file."""
        return read_app(self.section.path)

    def check(self) -> None:
        """The app's file can be read, and the study says what is optimised; nothing is imported."""
        _ = self.app_file
        if "metric" not in self.file.objective.model_fields_set:
            raise InputError(
                "objective.metric is missing: which of the app's metrics (fedhpo flower inspect lists them), "
                "such as 'eval_acc'? A name of the app's own needs objective.direction = 'maximize' or "
                "'minimize' too"
            )
        cohort, clients = self.file.budget.cohort, self.section.clients
        if cohort is not None and cohort > clients:
            raise InputError(f"budget.cohort = {cohort}: must be at most app.clients ({clients})")
        self.check_space()

    def check_space(self) -> None:
        """Something is tuned."""
        if not self.study.fixed:
            check_app_space(self.study.given["space"])
        _ = self.study.space

    def tables(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """With the app's own values as defaults."""
        return with_app_defaults(dotted_tables(given, self.app_file), self.app_file)

    def metric_in(self, federation: Federation, objective: Objective) -> str:
        """The study names it."""
        return objective.metric

    def part(self, place: str) -> Part:
        """The strategy is the app's."""
        return APP

    def claims(self, place: str) -> list[Part]:
        """The app's clients hold no reply, and have no [place]."""
        return [APP, *([APP_CLIENTS] if place in (FLOWER, NVFLARE) else [])]

    def said(self, place: str) -> list[str]:
        """What is not as the app has it: its number of rounds, and values that trial 0 has."""
        return [*self._said_of_rounds(), *self._said_of_own()]

    def _said_of_own(self) -> list[str]:
        """Which of the app's own values lie outside their ranges, and which are not known."""
        known = self.study.space.hyperparameters
        unknown = [
            name
            for name, one in known.items()
            if one.own is None and one.default is None and not name.startswith("policy.")
        ]
        lines = [
            f"space.{name}: the app's own value, {one.own!r}, lies outside the range; trial 0 is trained "
            "with it"
            for name, one in known.items()
            if one.own is not None
        ]
        if unknown:
            lines.append(
                f"the app's own value of {', '.join(unknown)} is not known: trial 0 has the middle of the "
                "range there (write default = ... in the range to set it)"
            )
        return lines

    def _said_of_rounds(self) -> list[str]:
        key, rounds = self._followed(), self.file.budget.rounds
        own = None if key is None else self.app_file.config[key]
        if key is None or own == rounds:
            return []
        return [f"the app's {key} is {rounds}, as budget.rounds, in place of {own}: its schedules end there"]

    def _followed(self) -> str | None:
        """The key of the app's run config that holds its number of rounds, unless the study sets it."""
        key, default = self.app_file.rounds_key, self.study.space.default()
        return None if key in default.client or key in default.model else key

    def federation(self, data: FederatedData | None, workers: int | None, ray: str | None) -> Federation:
        """The app's nodes in this process, in so many workers or on a Ray cluster."""
        from fedhpo.federations.apps.in_process import app_in_process

        app, flower = self.section, self.file.flower
        if "clients" in flower.model_fields_set:
            refuse(["flower.clients: has no effect in this process, app.clients counts: leave it out"])
        return app_in_process(
            app.path,
            app.clients,
            self.study.objective,
            app.setup,
            app.node_config,
            workers=workers,
            ray=ray,
            **self.options(),
            **flower.model_dump(exclude={"clients"}, exclude_unset=True),
        )

    simulated = federation

    def options(self) -> dict[str, Any]:
        """Settings of the app's federation that do not depend on where its nodes are."""
        return {
            "weight_cap": self.file.server.weight_cap,
            "rounds": None if self._followed() is None else self.file.budget.rounds,
            "learning_curve": self.section.learning_curve or SCORES_IN_ROUND in self.study.method.needs,
        }

    def over(
        self, transport: Transport, default: Aggregation, settings: dict[str, Any], model: Any = None
    ) -> RemoteClients:
        """Not by messages of ours."""
        raise InputError(
            f"[app] names a Flower app, which cannot run {PLACES[transport.runtime]}: its clients speak "
            "Flower's messages; use fedhpo.flower, or fedhpo tune with workers"
        )

    def dealt(self) -> FederatedData:
        """The app's clients have data of their own."""
        raise InputError("[app] brings its own data, and data that fedhpo reads is needed")

    def party(self, rows: NodeRows, device: str) -> AskedParty:
        """The app's clients are its own."""
        raise InputError("[app] names a Flower app, which brings its own clients")

    def finished(self, result: Result) -> None:
        """Write the config that was found as the app's own file has it."""
        if result.run is not None and result.status == "finished":
            write_block(result.run, self.app_file, result.best_config)
