"""Runs an NVFlare job whole in NVFlare's simulator, as it is, with values given from outside.

`run_job(path, {"epochs": 2, "client:SGD.lr": 0.1}, rounds=3, seed=0)` trains it and returns a `JobRun`; its
`scores(metric, source, scored)` are the metric by site, and `failed` says why there are none. `path` is a
directory with `job.py`, such a script, or an exported job. Not a line of the job is edited: a copy runs, in
processes into which Python loads `fedhpo.federations.jobs.recorder` first.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedhpo.federations.jobs.job_file import JobFile, read_job
from fedhpo.protocol.objective import CLIENTS

#: What a metric in the replies of training is about: the model that a site received, or its own after it.
RECEIVED, TRAINED = SCORED = "received", "trained"
_SITE = """import importlib.util, json, os, sys
here = os.path.dirname(__file__)
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
with open(os.path.join(here, "plan.json"), encoding="utf-8") as file:
    plan = json.load(file)
load("fedhpo_job_recorder", plan["recorder"]).install(plan)
for place in sys.path:
    other = os.path.join(place, "sitecustomize.py")
    if place and os.path.abspath(place) != here and os.path.isfile(other):
        load("other_sitecustomize", other)
        break
"""


@dataclass(frozen=True)
class Reply:
    """What a site sent to the server: of which task and round (from 0), with which metrics."""

    site: str
    task: str
    round: int | None
    metrics: Mapping[str, float]
    bytes: int = 0
    code: str = "OK"
    owner: str | None = None


@dataclass(frozen=True)
class JobRun:
    """What came of a run: all that sites said, or why it failed."""

    sites: Sequence[str]
    rounds: int | None
    replies: Sequence[Reply] = ()
    #: What sites tracked: by site and tag, in the order of time.
    tracked: Mapping[tuple[str, str], Sequence[float]] = field(default_factory=dict)
    #: The values that the job came by.
    bound: frozenset[str] = frozenset()
    seconds: float = 0.0
    failed: str = ""
    #: The job's own number of rounds, where a recipe or a controller of its own says it.
    own_rounds: int | None = None

    def scores(self, metric: str, source: str = CLIENTS, scored: str = RECEIVED) -> dict[str, float]:
        """A metric of the final model by site.

        From clients: what they say of the final model when NVFlare asks them to validate it. Else of
        training: what their last replies hold, or, where sites score what they trained, what they tracked
        last.
        """
        if source == CLIENTS:
            asked = [one for one in self.replies if one.task == "validate"]
            return {one.site: one.metrics[metric] for one in asked if metric in one.metrics}
        replies = [one for one in self.replies if one.task != "validate" and metric in one.metrics]
        found = {one.site: one.metrics[metric] for one in replies}
        if scored == TRAINED:
            found = {
                **{site: values[-1] for (site, tag), values in self.tracked.items() if tag == metric},
                **found,
            }
        return found

    @property
    def metrics(self) -> dict[str, list[str]]:
        """The names of what sites told, by source: as `objective.from` has it."""
        asked = {name for one in self.replies if one.task == "validate" for name in one.metrics}
        told = {name for one in self.replies if one.task != "validate" for name in one.metrics}
        told |= {tag for _, tag in self.tracked}
        return {"clients": sorted(asked), "training": sorted(told)}


def run_job(
    path: str | Path | JobFile,
    values: Mapping[str, Any] | None = None,
    *,
    rounds: int | None = None,
    seed: int = 0,
    arguments: Sequence[str] = (),
    final: bool = False,
    clients: int | None = None,
    setup: str | None = None,
    timeout: float = 3600.0,
    probe: bool = False,
) -> JobRun:
    """Run a job to its end.

    `values` are options of its scripts (`epochs`) or arguments in its code (`client:SGD.lr`), `arguments` are
    further ones of `job.py`; `rounds` takes the place of the job's own. With `final`, NVFlare lets the sites
    validate the final model. `clients` is for exported jobs, which do not say it. `setup` is called in every
    process of the job. A `probe` ends before anything is trained, and tells the sites.
    """
    job = path if isinstance(path, JobFile) else read_job(path)
    job.check_sites(arguments, clients)
    options, literals = job.plan(values or {})
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedhpo-job-") as folder:
        home = Path(folder)
        made = job.copy_to(_made(home / "copy"))
        record, site = _made(home / "record"), _made(home / "site")
        plan = {
            "recorder": str(Path(__file__).with_name("recorder.py")),
            "record": str(record),
            "files": sorted({one.name for one in job.files}),
            "options": options,
            "literals": literals,
            "rounds": rounds,
            "seed": seed,
            "final": final,
            "probe": probe,
            "setup": setup,
        }
        (site / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        (site / "sitecustomize.py").write_text(_SITE, encoding="utf-8")
        code = _started(_command(job, made, home, arguments, clients), made, home, site, timeout)
        found = _read(record, rounds, time.monotonic() - begun)
        if job.script is None and not found.sites:
            found = _with(found, sites=[f"site-{one + 1}" for one in range(clients or 0)])
        return found if probe and found.sites else _judged(found, code, home, timeout)


def _command(
    job: JobFile, made: Path, home: Path, arguments: Sequence[str], clients: int | None
) -> list[str]:
    if job.script is not None:
        return [sys.executable, job.script, *arguments]
    simulator = "nvflare.private.fed.app.simulator.simulator"
    return [sys.executable, "-m", simulator, str(made), "-w", str(home / "work"), "-n", str(clients)]


def _started(command: list[str], made: Path, home: Path, site: Path, timeout: float) -> int | None:
    """The exit code of the job's process; None where it took too long."""
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(one for one in paths if one),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NVFLARE_SIMULATOR_WORKSPACE_ROOT": str(home / "work"),
        "TMPDIR": str(_made(home / "tmp")),
    }
    with open(home / "log.txt", "wb") as log:
        process = subprocess.Popen(
            command, cwd=made, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end_all(process.pid, str(home))


def _end_all(leader: int, mark: str) -> None:
    """End the job's processes: NVFlare gives each a session of its own, so they are known by their folder."""
    for pid in [leader, *_marked(mark)]:
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def _marked(mark: str) -> Iterator[int]:
    """Processes that were started with this folder in their environment."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if place.stat().st_uid == os.getuid() and mark.encode() in (place / "environ").read_bytes():
                yield int(place.name)
        except OSError:
            continue


def _read(record: Path, rounds: int | None, seconds: float) -> JobRun:
    lines = [json.loads(line) for file in sorted(record.glob("*.jsonl")) for line in file.open()]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        kinds.setdefault(line.pop("kind"), []).append(line)
    tracked: dict[tuple[str, str], list[float]] = {}
    for one in kinds.get("scalar", []):
        tracked.setdefault((one["site"], one["tag"]), []).append(one["value"])
    return JobRun(
        sites=next((one["sites"] for one in kinds.get("job", [])), []),
        rounds=rounds,
        replies=[Reply(**one) for one in kinds.get("reply", [])],
        tracked=tracked,
        bound=frozenset(one["name"] for one in kinds.get("bound", [])),
        seconds=seconds,
        failed=next((one["why"] for one in kinds.get("refused", [])), ""),
        own_rounds=next((one["own"] for one in kinds.get("rounds", []) if one["own"]), None),
    )


def _judged(found: JobRun, code: int | None, home: Path, timeout: float) -> JobRun:
    """The run, with the reason why it failed if it did."""
    if found.failed:
        return found
    if code is None:
        return _with(found, failed=f"the job was not done after {timeout:g} s (job.timeout)")
    bad = [one for one in found.replies if one.code != "OK"]
    if code or bad or not (found.replies or found.tracked):
        who = f"{bad[0].site} replied {bad[0].code}" if bad else f"the job ended with {code}"
        return _with(found, failed=f"{who}: {_last_error(home)}")
    return found


def _last_error(home: Path) -> str:
    """The last error in the job's logs, of its sites where they have one."""
    logs = [home / "log.txt", *sorted((home / "work").rglob("*log*.txt"))]
    texts = [one.read_text(encoding="utf-8", errors="replace") for one in logs if one.is_file()]
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for text in texts for line in text.splitlines()]
    named = [line for line in lines if re.match(r"^(\w+\.)*\w*(Error|Exception)\b.*:", line)]
    own = [line for line in named if "Simulation failed" not in line]
    return (own or named or [line for line in lines if line] or ["nothing was printed"])[-1][:300]


def _with(run: JobRun, **changed: Any) -> JobRun:
    from dataclasses import replace

    return replace(run, **changed)


def _made(place: Path) -> Path:
    place.mkdir(parents=True)
    return place
