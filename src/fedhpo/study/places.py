"""The federation of a study whose parties are asked on this machine or a cluster, by messages.

The parties, the mailbox and the server's side are those of Flower and NVFlare; a pool of workers brings the
messages. Trainees of a user's own run so, and everything that runs at a place of a user's own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fedhpo.core.errors import InputError
from fedhpo.data import FederatedData
from fedhpo.data.fingerprint import data_of
from fedhpo.federations.remote.pool import PATIENT, PoolTransport
from fedhpo.parties.answers import Answers
from fedhpo.parties.serving import Parties
from fedhpo.protocol.federation import Federation
from fedhpo.study.from_dataclass import build
from fedhpo.study.party import StudyParty
from fedhpo.study.remote import remote_federation
from fedhpo.study.study import Study
from fedhpo.workers.place import Place, place_for, places
from fedhpo.workers.processes import WorkersUnavailable


def place_in(study: Study) -> Place | None:
    """The place that `[place]` names, with its settings."""
    if study.file.place is None:
        return None
    given = dict(study.file.place)
    kind = places.find(given.pop("name", None), "place.name")
    if not hasattr(kind, "open"):
        raise InputError(f"place.name: {kind.__name__} has no method `open`: see fedhpo.workers.place")
    return build(kind, given, "place")


def parties_federation(
    study: Study, data: FederatedData, workers: int | None = None, ray: str | None = None
) -> Federation:
    """The study's federation, its parties at the place of its own, or in so many workers."""
    place = place_in(study)
    if place is None:
        place = place_for(workers, ray)
    elif workers is not None or ray is not None:
        raise InputError("workers and ray: leave them out where [place] says where parties are asked")
    prepare = partial(
        serve, dict(study.given), None if study.path is None else str(study.path), study.recorded
    )
    try:
        pool = place.open(prepare)
    except WorkersUnavailable as error:
        raise InputError(f"workers cannot do this study's work: {error}; write workers = 0") from None
    transport = PoolTransport(lambda: pool, data.clients, closes=True)
    belongs = {"data": data_of(data), **study.kind.belongs()}
    try:
        return remote_federation(study, transport, belongs=belongs, clients=data.clients, **PATIENT)
    except BaseException:
        transport.close()
        raise


def serve(given: dict[str, Any], path: str | None, recorded: bool) -> Parties:
    """What a worker does: it answers for all parties of the study with these tables, each on its own rows."""
    party = StudyParty(Study.from_dict(given, path=path, recorded=recorded))
    return Parties(Answers(party, dict(party.queries), lambda: 0.0))
