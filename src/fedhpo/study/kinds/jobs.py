"""Studies of an NVFlare job that is tuned as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from fedhpo.aggregation.aggregation import Aggregation
from fedhpo.core.claims import Part
from fedhpo.core.errors import InputError
from fedhpo.federations.apps.tables import check_app_space, with_defaults
from fedhpo.federations.jobs.inspection import inspect_job
from fedhpo.federations.jobs.job_file import JobFile, read_job
from fedhpo.protocol.objective import Objective
from fedhpo.study.kinds.kind import Kind
from fedhpo.study.parts import JOB, NVFLARE
from fedhpo.study.sections import Job

if TYPE_CHECKING:
    from fedhpo.data import FederatedData
    from fedhpo.federations.remote.base import RemoteClients
    from fedhpo.federations.remote.transport import Transport
    from fedhpo.parties.party import AskedParty
    from fedhpo.parties.rows import NodeRows
    from fedhpo.protocol.federation import Federation
    from fedhpo.study.study import Study


class JobKind(Kind):
    """An NVFlare job: data, model and training are its own, and each training is a run of its own."""

    place: ClassVar[str] = NVFLARE
    places: ClassVar[tuple[str, ...]] = (NVFLARE,)

    def __init__(self, study: Study, job: Job) -> None:
        super().__init__(study)
        self.section = job

    @property
    def words(self) -> str:
        """The kind in messages."""
        return "[job]"

    @property
    def job_file(self) -> JobFile:
        """The job as it lies on disk."""
        return read_job(self.section.path)

    def check(self) -> None:
        """The job is there, and the study says what is optimised; nothing is run."""
        self.job_file.check_sites(self.section.arguments, self.section.clients)
        if "metric" not in self.file.objective.model_fields_set:
            raise InputError(
                "objective.metric is missing: which of the job's metrics (fedhpo nvflare inspect lists "
                "them)? A name of the job's own needs objective.direction = 'maximize' or 'minimize' too"
            )
        if not self.section.scored_counts(self.study.objective.from_):
            raise InputError(
                f"job.scored = {self.section.scored!r}: has no effect with objective.from = 'clients': leave "
                "it out"
            )
        self.check_space()

    def check_space(self) -> None:
        """Something is tuned, and arguments in the code can be reached."""
        if not self.study.fixed:
            check_app_space(self.study.given["space"])
        default = self.study.space.default()
        values = {**default.client, **default.server, **default.model}
        self.job_file.plan(values)
        given = [one.partition("=")[0].lstrip("-") for one in self.section.arguments if one.startswith("-")]
        twice = [name for name in values if name in given]
        if twice:
            raise InputError(
                f"job.arguments: has --{twice[0]}, which [space] sets in every run: leave one of them out"
            )

    def tables(self, given: dict[str, Any]) -> Mapping[str, Any]:
        """With the job's own values as defaults, as far as its code shows them."""
        known = {one.name: one.value for one in inspect_job(self.job_file).tunables}
        return with_defaults(given, known)

    def metric_in(self, federation: Federation, objective: Objective) -> str:
        """The study names it."""
        return objective.metric

    def part(self, place: str) -> Part:
        """All but the values of the space is the job's."""
        return JOB

    def claims(self, place: str) -> list[Part]:
        """NVFlare waits for sites by itself."""
        return [JOB]

    def said(self, place: str) -> list[str]:
        """What a run costs beyond its rounds."""
        more = self.study.objective.from_ != "clients" and self.section.scored == "received"
        lines = [f"every training is a run of the job in NVFlare's simulator ({self.job_file.path.name})"]
        if more:
            lines.append(
                "sites score the model that they receive: every run has one round more, whose replies tell "
                'of the final model (job.scored = "trained" where they score what they trained)'
            )
        return lines

    def federation(self, data: FederatedData | None, workers: int | None, ray: str | None) -> Federation:
        """The job's sites in NVFlare's simulator."""
        from fedhpo.federations.jobs.federation import JobFederation

        if ray is not None or workers not in (None, 0):
            raise InputError("--workers and --ray: an NVFlare job starts its own processes: leave them out")
        job = self.section
        return JobFederation(
            job.path,
            self.study.objective,
            arguments=job.arguments,
            scored=job.scored,
            clients=job.clients,
            setup=job.setup,
            timeout=job.timeout,
        )

    simulated = federation

    def over(
        self, transport: Transport, default: Aggregation, settings: dict[str, Any], model: Any = None
    ) -> RemoteClients:
        """Not by messages of ours."""
        raise InputError("[job] names an NVFlare job, which runs by itself: use fedhpo tune")

    def dealt(self) -> FederatedData:
        """The job's sites have data of their own."""
        raise InputError("[job] brings its own data, and data that fedhpo reads is needed")

    def party(self, rows: NodeRows, device: str) -> AskedParty:
        """The job's sites are its own."""
        raise InputError("[job] names an NVFlare job, which brings its own sites")
