"""Studies whose `[model]` names a trainee of the user's own: `fedhpo.parties.trainee`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fedhpo.core.claims import Part
from fedhpo.core.errors import InputError, unknown_name
from fedhpo.core.fingerprint import code_of
from fedhpo.core.objects import import_object, is_own
from fedhpo.core.registry import Registry
from fedhpo.models import MODELS
from fedhpo.parties.trainee import Trainee, TraineeParty, is_trainee
from fedhpo.study.from_dataclass import build
from fedhpo.study.kinds.torch_models import ArraysKind
from fedhpo.study.parts import TRAINEE
from fedhpo.study.sections import Model

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.parties.rows import NodeRows
    from fedhpo.protocol.federation import Federation

trainees: Registry[type[Any]] = Registry("trainee", {}, word="trainee")


def trainee_class(model: Model) -> type[Any] | None:
    """The class of trainees that [model] names, if it names one."""
    if model.name in MODELS:
        return None
    if is_own(model.name):
        found = import_object(model.name, "model.name", called=False)
        if not callable(found):
            estimator = f": an estimator is written name = 'estimator', path = {model.name!r}"
            more = estimator if hasattr(found, "fit") else ""
            kind = type(found).__name__
            raise InputError(
                f"model.name = {model.name!r}: must be a function or a class, found {kind}{more}"
            )
        return found if is_trainee(found) else None
    return trainees.find(model.name, "model.name") if trainees.brings(model.name) else None


class TraineeKind(ArraysKind):
    """A class of the user's own, which says what is trained at the server and at clients."""

    @cached_property
    def trainee(self) -> Trainee:
        """The trainee with its settings; a key that it does not have is refused."""
        kind = trainee_class(self.file.model)
        assert kind is not None
        made: Trainee = build(kind, self.file.model.others, "model")
        return made

    def check_space(self) -> None:
        """Refuse a study that tunes nothing, or names that the trainee does not take."""
        names, space = self.trainee.hyperparameters, self.study.space
        if not space.names:
            raise InputError(
                "space has nothing to tune: write, say, lr = { low = 1e-3, high = 1.0, log = true }"
            )
        for key in space.scope("client") if names is not None else ():
            if key not in (names or ()):
                kind = f"hyperparameter of {type(self.trainee).__name__}"
                raise InputError(f"space.client.{key}: {unknown_name(kind, key, names or ())}")

    def tables(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """As given: what stands in [model] are settings of the trainee."""
        return given

    def part(self, place: str) -> Part:
        """Wherever parties are asked."""
        return TRAINEE

    def simulated(self, data: FederatedData, workers: int | None, ray: str | None) -> Federation:
        """Its parties are asked by messages everywhere."""
        return self.at_place(data, workers, ray)

    def first(self) -> Any:
        """The trainee's first arrays."""
        from fedhpo.federations.remote.models import Arrays

        return Arrays(self.trainee.first)

    def belongs(self) -> dict[str, Any]:
        """Its code and its settings."""
        settings: Any = self.trainee
        return {"trainee": code_of(type(settings)), "trainee settings": asdict(settings)}

    def party(self, rows: NodeRows, device: str) -> TraineeParty:
        """Trains as the trainee says."""
        return TraineeParty(self.trainee, rows)
