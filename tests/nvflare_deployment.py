"""NVFlare's simulator, and a deployment with mutual TLS on this machine: `make test-nvflare`.

First the tests of `tests/nvflare/in_simulator.py` run inside a job of the simulator. Then a server and three
clients are provisioned and started on loopback, on a free port. SHA runs over them. The server is killed in
the middle, started again, and the job submitted again: it goes on, and the model is that of a simulation,
bit for bit. FedEx then finishes although a client is killed. A client of another project is refused.
Whatever was started is stopped, at the latest after half an hour.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
from pathlib import Path

import psutil

BIN = Path(sys.executable).parent
TESTS = Path(__file__).parent / "nvflare"
SITES = [f"site-{number}" for number in (1, 2, 3)]
ADMIN = "admin@test.org"
LIMIT = 1800.0

PROJECT = """\
api_version: 3
name: {name}
description: one machine
participants:
  - {{name: localhost, type: server, org: test, fed_learn_port: {port}}}
{clients}
  - {{name: {admin}, type: admin, org: test, role: project_admin}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args: {{config_folder: config}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""

STUDY = {
    "seed": 1,
    "data": {"name": "digits", "clients": 3, "partition": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "linear"},
    "space": {"client": {"lr": {"low": 1e-2, "high": 1.0, "log": True, "default": 0.1}}},
    "server": {"aggregation": "mean", "weight_cap": 100.0},  # as in a simulation
    "objective": {"metric": "loss"},
    "nvflare": {"clients": 3, "deadline": 40.0, "retries": 0, "most_rows": 5000},
}
SHA = {
    **STUDY,
    "method": {"name": "sha", "trials": 4},
    "budget": {"rounds": 32, "total": 96, "cohort": 2},
}
FEDEX = {
    **STUDY,
    # The killed client is waited for so long, once.
    "nvflare": {**STUDY["nvflare"], "deadline": 10.0},
    "method": {"name": "fedex", "schedule": "fixed", "trials": 1, "arms": 4},
    "budget": {"rounds": 4, "total": 4, "cohort": 3},
}


class Deployment:
    """Processes that end with the block, whatever happens."""

    def __init__(self, home: Path) -> None:
        self.home, self.end = home, time.monotonic() + LIMIT
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]

    def provision(self, name: str, clients: list[str]) -> Path:
        """Kits with certificates of an authority of the project's own."""
        lines = "\n".join(f"  - {{name: {client}, type: client, org: test}}" for client in clients)
        file = self.home / f"{name}.yml"
        file.write_text(PROJECT.format(name=name, port=self.port, clients=lines, admin=ADMIN))
        command = [str(BIN / "nvflare"), "provision", "-p", str(file), "-w", str(self.home), "--force"]
        subprocess.run(command, env=self.environment, check=True, capture_output=True, cwd=self.home)
        kits = self.home / name / "prod_00"
        # What NVFlare would keep in a directory that all its servers on a machine share.
        default = (kits / "localhost" / "local" / "resources.json.default").read_text()
        own = default.replace("/tmp/nvflare", str(self.home / "kept"))
        (kits / "localhost" / "local" / "resources.json").write_text(own)
        service = json.loads((kits / "localhost" / "startup" / "fed_server.json").read_text())["servers"][0]
        check(
            "the server's address is this machine's alone",
            service["service"]["target"].startswith("localhost:"),
        )
        return kits

    def start(self, name: str, kit: Path) -> None:
        """Start a server or a client, without the watchdog of its start.sh, in a group of its own."""
        server = (kit / "startup" / "fed_server.json").exists()
        side = "server.server_train" if server else "client.client_train"
        # By its heartbeat a client notices that the server is back.
        more = [] if server else [f"uid={kit.name}", "heart_beat_interval=1"]
        command = [sys.executable, "-u", "-m", f"nvflare.private.fed.app.{side}", "-m", str(kit), "-s"]
        command += ["fed_server.json" if server else "fed_client.json", "--set", "secure_train=true", *more]
        command += ["org=test", "config_folder=config"]
        (kit / "transfer").mkdir(exist_ok=True)
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment, start_new_session=True, cwd=kit
            )

    def kill(self, name: str) -> None:
        """Kill a process and all that it started, without a word."""
        process = self.processes[name]
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait(self, what: str, ready) -> None:  # type: ignore[no-untyped-def]
        """Wait until `ready()` is true; the logs are shown if it never is."""
        begun = time.monotonic()
        while not ready():
            if time.monotonic() > self.end:
                logs = "\n".join(
                    f"--- {name}\n{(self.home / f'{name}.log').read_text(errors='replace')[-3000:]}"
                    for name in self.processes
                )
                raise SystemExit(f"{what}: not in time\n{logs}")
            time.sleep(0.2)
        say(f"{what} ({time.monotonic() - begun:.0f} s)")

    def listening(self) -> set[str]:
        """Addresses at which anything that was started listens."""
        found = set()
        for process in self.processes.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                one = psutil.Process(process.pid)
                for part in [one, *one.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        found |= {c.laddr.ip for c in part.net_connections("inet") if c.status == "LISTEN"}
        return found

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(self.processes):
            self.kill(name)


def say(text: str) -> None:
    print(text, flush=True)


def check(what: str, true: bool) -> None:
    say(f"{what}: {'yes' if true else 'NO'}")
    if not true:
        raise SystemExit(1)


def simulator(home: Path, environment: dict[str, str]) -> None:
    """The tests that run inside a job of NVFlare's simulator."""
    report, begun = home / "report.xml", time.monotonic()
    with (home / "simulator.log").open("wb") as log:
        command = [sys.executable, str(TESTS / "suite_job.py"), str(report)]
        # A client that dies in the last test leaves NVFlare's simulator waiting: the report counts.
        job = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    try:
        while not report.exists() and job.poll() is None and time.monotonic() - begun < LIMIT:
            time.sleep(0.5)
    finally:
        time.sleep(1.0)
        for child in psutil.Process(job.pid).children(recursive=True) if job.poll() is None else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        job.kill()
        job.wait()
    if not report.exists():
        raise SystemExit((home / "simulator.log").read_text(errors="replace")[-5000:])
    suite = next(xml.etree.ElementTree.parse(report).getroot().iter("testsuite"))
    count, bad = int(suite.get("tests", 0)), int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    for case in suite.iter("testcase"):
        for wrong in (*case.findall("failure"), *case.findall("error")):
            say(f"{case.get('name')}: {wrong.get('message')}")
    say(f"inside NVFlare's simulator: {count - bad} of {count} tests pass ({time.monotonic() - begun:.0f} s)")
    check("all pass, and there were some", bad == 0 and count > 40)


def rounds(run: Path) -> int:
    """How many rounds a run's record holds."""
    if not (run / "record.sqlite").exists():
        return 0
    with (
        contextlib.suppress(sqlite3.OperationalError),
        contextlib.closing(sqlite3.connect(run / "record.sqlite")) as record,
    ):
        return record.execute("select count(*) from events where kind in ('round', 'done')").fetchone()[0]
    return 0


def session(kits: Path):  # type: ignore[no-untyped-def]
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    return new_secure_session(ADMIN, str(kits / ADMIN), timeout=60.0)


def there(kits: Path) -> set[str]:
    """The clients that the server knows."""
    with contextlib.suppress(Exception), contextlib.closing(session(kits)) as one:
        return {client.name for client in one.get_system_info().client_info}
    return set()


def submit(kits: Path, home: Path, name: str, study: dict, run: Path) -> str:
    """A job that tunes a study; its id."""
    from fedhpo.nvflare import recipe
    from fedhpo.study import Study

    jobs = home / "jobs"
    recipe(name, Study.from_dict(study), run).export(str(jobs))
    with contextlib.closing(session(kits)) as one:
        return str(one.submit_job(str(jobs / name)))


def tuned(  # type: ignore[no-untyped-def]
    place: Deployment, kits: Path, name: str, study: dict, run: Path, what: str, ready
) -> None:
    """Submit a job, and again where NVFlare ends it before its time, as it does on a busy machine."""
    job, looked = submit(kits, place.home, name, study, run), time.monotonic()

    def there_or_again() -> bool:
        nonlocal job, looked
        if ready() or time.monotonic() - looked < 30.0:
            return bool(ready())
        looked = time.monotonic()
        with contextlib.suppress(Exception), contextlib.closing(session(kits)) as one:
            if str(one.get_job_meta(job).get("status", "")).startswith("FINISHED") and not ready():
                say("NVFlare ended the job before its time: submitted again")
                job = submit(kits, place.home, name, study, run)
        return False

    place.wait(what, there_or_again)


def facts(path: Path) -> dict:
    found = json.loads(path.read_text())
    return {key: value for key, value in found.items() if key not in ("times", "run")}


def killed_server(place: Deployment, kits: Path) -> None:
    """SHA over three clients, the server killed in the middle."""
    run, simulated = place.home / "sha", place.home / "simulated"
    tuned(place, kits, "sha", SHA, run, "four rounds are done", lambda: rounds(run) >= 4)
    place.kill("server")
    done = rounds(run)
    check("the server was killed in the middle", not (run / "result.json").exists())
    place.start("server", kits / "localhost")
    place.wait("the server is back, and so are its clients", lambda: there(kits) >= set(SITES))
    ended = f"the run went on after {done} rounds and has finished"
    tuned(place, kits, "sha", SHA, run, ended, (run / "result.json").exists)
    compare(SHA, run, simulated)


def compare(study: dict, run: Path, simulated: Path) -> None:
    """Whether a run gave what a simulation gives."""
    from safetensors.numpy import load_file

    import fedhpo as fh
    from fedhpo.study import Study

    opened = Study.from_dict(study)
    opened.tune(simulated, federation=fh.simulate("linear", opened.load_data(), workers=0, stacking=False))
    ours, theirs = (load_file(path / "model.safetensors") for path in (simulated, run))
    same = (
        all(ours[name].tobytes() == theirs[name].tobytes() for name in ours) and ours.keys() == theirs.keys()
    )
    check("its model is that of a simulation, bit for bit", same)
    first, second = facts(simulated / "result.json"), facts(run / "result.json")
    differing = {key for key in first if first[key] != second.get(key)}
    say(f"facts of the result that differ from a simulation's: {', '.join(sorted(differing)) or 'none'}")


def killed_client(place: Deployment, kits: Path) -> None:
    """FedEx over three clients, one of them killed in the middle."""
    run = place.home / "fedex"
    tuned(place, kits, "fedex", FEDEX, run, "two rounds are done", lambda: rounds(run) >= 2)
    place.kill("site-3")
    say("killed a client")
    place.wait("the run has finished", (run / "result.json").exists)
    check("it is finished", json.loads((run / "result.json").read_text())["status"] == "finished")
    check("all rounds were trained", rounds(run) == FEDEX["budget"]["rounds"])


def deployment(home: Path) -> None:
    with Deployment(home) as place:
        kits, strange = place.provision("loopback", SITES), place.provision("strangers", ["site-9"])
        place.start("server", kits / "localhost")
        for site in SITES:
            place.start(site, kits / site)
        place.start("stranger", strange / "site-9")
        place.wait("the server and three clients are up", lambda: there(kits) >= set(SITES))
        check("nothing listens beyond this machine", place.listening() <= {"127.0.0.1", "::1"})
        killed_server(place, kits)
        killed_client(place, kits)
        check("a client of another project was refused", "site-9" not in there(kits))


def main() -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        if "--deployment" not in sys.argv:
            simulator(home, {**os.environ, "OMP_NUM_THREADS": "1"})
        if "--simulator" not in sys.argv:
            deployment(home)
    say(f"all is well, after {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
