"""The questions that a study answers differently for a torch model, a learner, a trainee, a Flower app."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import Part
from fedhpo.core.errors import InputError
from fedhpo.protocol.objective import Objective, check_source, natural_objective
from fedhpo.study.checks import check_clients, check_data
from fedhpo.study.loading import dealt_data
from fedhpo.study.parts import ASKED, FLOWER, NVFLARE, OWN_PLACE, SIMULATION

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.federations.remote.base import RemoteClients
    from fedhpo.federations.remote.transport import Transport
    from fedhpo.parties.party import AskedParty
    from fedhpo.parties.rows import NodeRows
    from fedhpo.protocol.federation import Federation
    from fedhpo.study.kinds.apps import AppKind
    from fedhpo.study.study import Study
    from fedhpo.tuning.result import Result


class Kind(ABC):
    """What a study trains, and all that follows from it; `kind_of` chooses the class."""

    #: The place of `Study.federation`.
    place: ClassVar[str] = SIMULATION
    #: Places of which the study may set keys.
    places: ClassVar[tuple[str, ...]] = (SIMULATION, FLOWER)

    def __init__(self, study: Study) -> None:
        self.study, self.file = study, study.file

    @property
    def words(self) -> str:
        """The kind in messages."""
        return f"model.name = {self.file.model.name!r}"

    def as_app(self) -> AppKind:
        """The kind of studies that have [app]; any other is refused."""
        raise InputError('the study has no [app]: write path = "..." there, the app\'s directory')

    # What the study says.

    def check(self) -> None:
        """Refuse what can be known to be wrong before any data is read or model built."""
        check_source(self.study.objective)
        check_data(self.file.data)
        self.check_space()

    @abstractmethod
    def check_space(self) -> None:
        """Refuse hyperparameters that it does not have."""

    @abstractmethod
    def tables(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """The tables of the space, of those in [space], with what stands elsewhere in the file."""

    def objective(self, given: dict[str, Any]) -> dict[str, Any]:
        """The keys of [objective], with defaults of its own."""
        return given

    def metric_in(self, federation: Federation, objective: Objective) -> str:
        """The metric where the file names none: what goes with the federation's targets."""
        return natural_objective(federation).metric

    # Who honours its keys.

    @abstractmethod
    def part(self, place: str) -> Part:
        """What is trained there, as one that honours keys."""

    def claims(self, place: str) -> list[Part]:
        """All who honour keys there."""
        return [self.part(place), ASKED if place in (FLOWER, NVFLARE) else OWN_PLACE]

    def said(self, place: str) -> list[str]:
        """Notes for the run: defaults that depend on the place."""
        return []

    # What runs it.

    def federation(self, data: FederatedData | None, workers: int | None, ray: str | None) -> Federation:
        """In a simulation, or at the study's [place]."""
        data = self.study.load_data() if data is None else data
        check_clients(data, self.file.budget.cohort, self.study.evaluator.clients)
        if self.file.place is not None:
            return self.at_place(data, workers, ray)
        return self.simulated(data, workers, ray)

    def at_place(self, data: FederatedData, workers: int | None, ray: str | None) -> Federation:
        """Parties that are asked by messages, at the place of the study or in workers."""
        from fedhpo.study.places import parties_federation

        return parties_federation(self.study, data, workers, ray)

    @abstractmethod
    def simulated(self, data: FederatedData, workers: int | None, ray: str | None) -> Federation:
        """On this machine, or on a Ray cluster."""

    @abstractmethod
    def over(
        self, transport: Transport, default: Aggregation, settings: dict[str, Any], model: Any = None
    ) -> RemoteClients:
        """Over the clients that a transport reaches; `default` joins updates where the file names no rule."""

    def belongs(self) -> dict[str, Any]:
        """What a run's fingerprint holds of parties at a [place]."""
        return {}

    def dealt(self) -> FederatedData:
        """The data of the study, dealt to clients."""
        return dealt_data(self.file.data, self.study.given["data"])

    def rows(self) -> FederatedData:
        """The data that a party trains on: rows without missing values."""
        from fedhpo.data import without_missing

        return without_missing(self.study.load_data())

    @abstractmethod
    def party(self, rows: NodeRows, device: str) -> AskedParty:
        """What a client does when it is asked."""

    def finished(self, result: Result) -> None:  # noqa: B027  # most have nothing to do
        """After a run has ended."""
