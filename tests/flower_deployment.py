"""A real Flower deployment on this machine, with TLS and node authentication: `make test-flower`.

Starts a SuperLink and three SuperNodes on loopback, on free ports. FedEx runs over them; one SuperNode is
killed in the middle, and the run finishes with the other two. Then FLoRA runs over these, and an app that
knows nothing of fedhpo is wrapped and tuned. A node whose key was not registered is refused. Whatever was
started is stopped, at the latest after fifteen minutes.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
NODES = 3
LIMIT = 900.0

STUDY = """\
[data]
name = "digits"
clients = 3
partition = {{ kind = "dirichlet", alpha = 0.5 }}
[model]
name = "linear"
[space.client]
lr = {{ low = 1e-2, high = 1.0, log = true, default = 0.1 }}
[method]
{method}
[budget]
rounds = {rounds}
total = {rounds}
cohort = {clients}
[flower]
clients = {clients}
deadline = 120.0
retries = 0
most_rows = 5000
"""


FEDEX = 'name = "fedex"\nschedule = "fixed"\ntrials = 1\narms = 4'
FLORA = 'name = "flora"\nconfigs = 4\nlocal_rounds = 1\ndiagnose = false'


#: A Flower app that knows nothing of fedhpo, and its study.
APP = Path(__file__).parent / "flower" / "apps"
APP_STUDY = """\
[space.client]
learning-rate = { low = 0.01, high = 1.0, log = true }
[objective]
metric = "eval_loss"
direction = "minimize"
[method]
name = "random"
trials = 3
[budget]
rounds = 2
total = 6
cohort = 2
baseline = true
"""


class Deployment:
    """Processes that end with the block, whatever happens."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.end = time.monotonic() + LIMIT
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(home / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "OMP_NUM_THREADS": "1",
        }

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process that goes on, in a group of its own; it writes to a log."""
        with (self.home / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.environment, start_new_session=True
            )
        self.processes[name] = process
        return process

    def run(self, *command: str) -> str:
        """Run a command to its end."""
        left = max(1.0, self.end - time.monotonic())
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=left, cwd=self.home
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def kill(self, name: str) -> None:
        """Kill a process and all that it started, without a word."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait()

    def log(self, name: str) -> str:
        """What a process has said so far."""
        return (self.home / f"{name}.log").read_text(errors="replace")

    def wait(self, what: str, ready) -> None:  # type: ignore[no-untyped-def]
        """Wait until `ready()` is true; the logs are shown if it never is."""
        begun = time.monotonic()
        while not ready():
            if time.monotonic() > self.end:
                logs = "\n".join(f"--- {name}\n{self.log(name)[-3000:]}" for name in self.processes)
                raise SystemExit(f"{what}: not in time\n{logs}")
            time.sleep(0.5)
        say(f"{what} ({time.monotonic() - begun:.0f} s)")

    def __enter__(self) -> Deployment:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(self.processes):
            self.kill(name)


def say(text: str) -> None:
    print(text, flush=True)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def make_certificates(deployment: Deployment) -> None:
    """An authority, and the SuperLink's certificate for 127.0.0.1."""
    (deployment.home / "san.txt").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new = ("openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj")
    deployment.run(*new, "/CN=test authority", "-x509", "-days", "2", "-keyout", "ca.key", "-out", "ca.crt")
    deployment.run(*new, "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    deployment.run(
        *("openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", "2"),
        *("-CAcreateserial", "-extfile", "san.txt", "-out", "server.pem"),
    )


def start_link(deployment: Deployment, port: int) -> None:
    """A SuperLink with TLS and node authentication, which `flwr run APP tls` finds."""
    home = deployment.home
    make_certificates(deployment)
    (home / "flwr").mkdir()
    (home / "flwr" / "config.toml").write_text(
        f'[superlink]\ndefault = "tls"\n[superlink.tls]\naddress = "127.0.0.1:{port}"\n'
        f'root-certificates = "{home / "ca.crt"}"\n'
    )
    deployment.start(
        "superlink",
        *("flower-superlink", "--ssl-ca-certfile", str(home / "ca.crt")),
        *("--ssl-certfile", str(home / "server.pem"), "--ssl-keyfile", str(home / "server.key")),
        *("--enable-supernode-auth", "--host", "127.0.0.1", "--port", str(port)),
        "--disable-runtime-dependency-installation",
    )
    deployment.wait("SuperLink is up", lambda: "Uvicorn running" in deployment.log("superlink"))


def make_key(deployment: Deployment, name: str) -> str:
    """A node's key pair."""
    deployment.run("ssh-keygen", "-q", "-t", "ecdsa", "-b", "384", "-N", "", "-f", name)
    return str(deployment.home / name)


def start_node(deployment: Deployment, name: str, link: int, port: int, partition: int) -> None:
    deployment.start(
        name,
        *("flower-supernode", "--root-certificates", str(deployment.home / "ca.crt")),
        *("--superlink", f"127.0.0.1:{link}", "--host", "127.0.0.1", "--port", str(port)),
        *("--auth-supernode-private-key", str(deployment.home / f"key-{name}")),
        *("--node-config", f"partition-id={partition} num-partitions={NODES}"),
    )


def tune_wrapped(deployment: Deployment, app: Path, study: Path) -> dict[str, Any]:
    """Wrap an app as it is, and tune it by `flwr run`; the run's result."""
    home = deployment.home
    around, run = home / "around", home / "runs" / study.stem
    wrap = ("flower", "wrap", str(app), str(study), str(around), "--runs", str(home / "runs"))
    deployment.run(str(BIN / "fedhpo"), *wrap)
    deployment.run("flwr", "run", str(around), "tls")
    deployment.wait("the wrapped app is tuned", (run / "result.json").exists)
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    check("it is finished", found["status"] == "finished")
    return found


def rounds(run: Path) -> int:
    """How many rounds the run's record holds."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{run / 'record.sqlite'}?mode=ro", uri=True)) as record:
            return int(record.execute("select count(*) from events where kind = 'round'").fetchone()[0])
    except sqlite3.Error:
        return 0


def main() -> None:
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="fedhpo-flower-") as folder,
        Deployment(Path(folder)) as deployment,
    ):
        home = deployment.home
        link, *ports = free_ports(NODES + 2)
        deployment.run(str(BIN / "fedhpo"), "new", "flower", "the-app")
        study = home / "the-app" / "the_app" / "study.toml"
        study.write_text(STUDY.format(method=FEDEX, rounds=4, clients=3))
        start_link(deployment, link)
        names = [f"node-{i}" for i in range(NODES)]
        for name in [*names, "stranger"]:
            make_key(deployment, f"key-{name}")
        for name in names:
            deployment.run("flwr", "supernode", "register", str(home / f"key-{name}.pub"), "tls")
        for i, name in enumerate([*names, "stranger"]):
            start_node(deployment, name, link, ports[i], i)
        deployment.run("flwr", "run", str(home / "the-app"), "tls")
        say("the run has begun")
        run = home / "the-app" / "runs" / "first"
        deployment.wait("two rounds are done", lambda: rounds(run) >= 2)
        known = json.loads((run / "clients.json").read_text())["clients"]
        check(
            "all registered nodes are clients, the stranger is not",
            sorted(c["number"] for c in known) == [0, 1, 2],
        )
        check("the stranger was refused", "Failed to activate SuperNode" in deployment.log("stranger"))
        deployment.kill("node-2")
        say("killed a SuperNode")
        deployment.wait("the run has finished", (run / "result.json").exists)
        result = json.loads((run / "result.json").read_text())
        check("it is finished", result["status"] == "finished")
        check("all rounds were trained", rounds(run) == 4)
        with (run / "history.csv").open() as file:
            heard = [
                (int(row["ok"]), int(row["missing"]))
                for row in csv.DictReader(file)
                if row["kind"] == "round"
            ]
        say("replies, missing by round: " + "; ".join(f"{ok}, {missing}" for ok, missing in heard))
        check("three clients replied at first, two in the end", heard[0] == (3, 0) and heard[-1] == (2, 1))
        study.write_text(STUDY.format(method=FLORA, rounds=2, clients=2))
        second = home / "the-app" / "runs" / "second"
        deployment.run("flwr", "run", str(home / "the-app"), "tls", "-c", f'run-dir="{second}"')
        deployment.wait("FLoRA has finished with two clients", (second / "result.json").exists)
        found = json.loads((second / "result.json").read_text())
        parties = [party["party"] for party in found["flora"]["parties"] if party["status"] == "ok"]
        check("both clients searched", parties == [0, 1])
        (home / "app.toml").write_text(APP_STUDY)
        result = tune_wrapped(deployment, APP, home / "app.toml")
        own, best = (result[which]["validation"]["value"] for which in ("baseline", "best"))
        check(f"the app's eval_loss is better than by its defaults: {own:.4f} -> {best:.4f}", best < own)
    say(f"all is well, after {time.monotonic() - begun:.0f} s")


def check(what: str, true: bool) -> None:
    if not true:
        raise SystemExit(f"not so: {what}")
    say(f"{what}: yes")


if __name__ == "__main__":
    main()
