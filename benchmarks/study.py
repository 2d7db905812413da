"""A whole study, fedhpo against Flower's simulation with Optuna by hand: time, and how good the winner is.

    python benchmarks/study.py [--json] [--trials 6] [--rounds 10] [--ways fedhpo one-app per-trial]

The study: digits at 20 clients, cohorts of 10, an MLP with 64 hidden units, random configs of learning rate,
momentum and batch size from Optuna's random sampler, the same for all. The best by the clients' validation
accuracy is tested. The ways to do it:

- fedhpo: `fedhpo.tune` on all cores;
- one-app: one ServerApp, in which a loop over Optuna's trials calls `FedAvg.start` for each;
- per-trial: a run of Flower's simulation for each trial, as its command line has it.

`whole` is the time from nothing to the result: imports, workers, Ray, and for Flower the SuperLink. `bare`
leaves start-up out: it begins once every worker, or node, has answered a first time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

CLIENTS, COHORT, HIDDEN = 20, 10, 64
WAYS = ("fedhpo", "one-app", "per-trial")

TRIALS = """\
import json
import os
from pathlib import Path

import optuna

HERE = Path(os.environ["STUDY_DIRECTORY"])


def configs(count):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    found = []
    for _ in range(count):
        trial = study.ask()
        found.append(
            {
                "lr": trial.suggest_float("lr", 0.01, 1.0, log=True),
                "momentum": trial.suggest_float("momentum", 0.0, 0.9),
                "batch_size": trial.suggest_categorical("batch_size", [8, 16, 32]),
            }
        )
    return found
"""

CLIENT = """\
import numpy as np
import torch
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from bench.trials import HERE

app = ClientApp()


def net():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def rows(context, split):
    data = np.load(HERE / f"{context.node_config['partition-id']}.npz")
    return torch.from_numpy(data[f"{split}_x"]), torch.from_numpy(data[f"{split}_y"])


def model_of(message):
    model = net()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    return model


@app.train()
def train(message, context):
    torch.set_num_threads(1)
    config, model = message.content["config"], model_of(message)
    x, y = rows(context, "train")
    optimiser = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=config["momentum"])
    for batch, target in DataLoader(TensorDataset(x, y), batch_size=config["batch_size"], shuffle=True):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(batch), target).backward()
        optimiser.step()
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(x)})}
    return Message(RecordDict(content), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    torch.set_num_threads(1)
    model = model_of(message)
    x, y = rows(context, message.content["config"]["split"])
    with torch.no_grad():
        right = int((model(x).argmax(1) == y).sum())
    metrics = MetricRecord({"num-examples": len(x), "accuracy": right / len(x)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@app.query("hello")
def hello(message, context):
    return Message(RecordDict(), reply_to=message)
"""

SERVER = """\
import json
import time

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

from bench.client_app import net
from bench.trials import HERE, configs

app = ServerApp()


def accuracy(grid, arrays, split):
    content = {"arrays": arrays, "config": ConfigRecord({"split": split})}
    messages = [Message(RecordDict(content), node, MessageType.EVALUATE) for node in grid.get_node_ids()]
    metrics = [reply.content["metrics"] for reply in grid.send_and_receive(messages)]
    return sum(m["accuracy"] * m["num-examples"] for m in metrics) / sum(m["num-examples"] for m in metrics)


def one_trial(grid, number, config, rounds):
    torch.manual_seed(number)
    strategy = FedAvg(fraction_train=COHORT / CLIENTS, fraction_evaluate=0.0, min_train_nodes=COHORT)
    arrays = ArrayRecord(net().state_dict())
    result = strategy.start(grid, arrays, num_rounds=rounds, train_config=ConfigRecord(config))
    return {name: accuracy(grid, result.arrays, name) for name in ("validation", "test")}


@app.main()
def main(grid, context):
    while len(list(grid.get_node_ids())) < CLIENTS:
        time.sleep(0.1)
    hello = [Message(RecordDict(), node, "query.hello") for node in grid.get_node_ids()]
    list(grid.send_and_receive(hello))
    begun, wanted, settings = time.time(), context.run_config["only"], configs(context.run_config["trials"])
    numbers = range(len(settings)) if wanted < 0 else [wanted]
    found = [one_trial(grid, number, settings[number], context.run_config["rounds"]) for number in numbers]
    out = HERE / f"done{wanted}.json"
    out.with_suffix(".part").write_text(json.dumps({"found": found, "bare": time.time() - begun}))
    out.with_suffix(".part").rename(out)
"""

PROJECT = """\
[project]
name = "bench"
version = "1.0.0"
license = "Apache-2.0"
dependencies = ["flwr>=1.41,<2"]
[tool.flwr.app]
publisher = "fedhpo"
[tool.flwr.app.components]
serverapp = "bench.server_app:app"
clientapp = "bench.client_app:app"
[tool.flwr.app.config]
trials = 6
rounds = 10
only = -1
"""

OURS = """\
import json
import sys
import time

import numpy as np
from torch import nn

import fedhpo as fh
from trials import HERE, configs

CLIENTS, COHORT, HIDDEN = 20, 10, 64


def net():
    return nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))


if __name__ == "__main__":
    trials, rounds = int(sys.argv[1]), int(sys.argv[2])
    names, clients = ("train", "validation", "test"), []
    for number in range(CLIENTS):
        data = np.load(HERE / f"{number}.npz")
        clients.append({name: (data[f"{name}_x"], data[f"{name}_y"]) for name in names})
    first, *others = configs(trials)
    space = fh.Space(  # trial 0 has the defaults
        client={
            "lr": fh.Float(0.01, 1.0, log=True, default=first["lr"]),
            "momentum": fh.Float(0.0, 0.9, default=first["momentum"]),
            "batch_size": fh.Choice([8, 16, 32], default=first["batch_size"]),
        }
    )
    with fh.simulate(net, fh.from_clients(clients, classes=10)) as federation:
        federation.start(10**6, {}, seed=0)
        federation.round([fh.Work(10**6, range(CLIENTS), {"lr": 0.1})])
        federation.stop(10**6)
        begun = time.time()
        chosen = [{"client": config} for config in others]
        settings = {"rounds": rounds, "total": trials * rounds, "cohort": COHORT}
        result = fh.tune(federation, space, "random", enqueue=chosen, **settings)
        bare = time.time() - begun
    best = result.facts["best"]
    print(json.dumps({"bare": bare, "test": best["test"]["accuracy"], "rounds": result.cost["rounds"]}))
"""


def prepare(home: Path) -> None:
    """The clients' rows as files, the app, and our script."""
    import fedhpo as fh

    data = fh.load("digits", clients=CLIENTS)
    for client in range(CLIENTS):
        parts = {}
        for name in ("train", "validation", "test"):
            rows = getattr(data, name).rows(client)
            parts |= {f"{name}_x": data.x[rows], f"{name}_y": data.y[rows]}
        np.savez(home / f"{client}.npz", **parts)
    (home / "app" / "bench").mkdir(parents=True)
    numbers = f"CLIENTS, COHORT = {CLIENTS}, {COHORT}\n"
    for place, text in {
        "app/pyproject.toml": PROJECT,
        "app/bench/__init__.py": "",
        "app/bench/trials.py": TRIALS,
        "app/bench/client_app.py": CLIENT,
        "app/bench/server_app.py": SERVER.replace("app = ServerApp()\n", f"app = ServerApp()\n{numbers}"),
        "trials.py": TRIALS,
        "ours.py": OURS,
    }.items():
        (home / place).write_text(text)


def environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "STUDY_DIRECTORY": str(home),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ADDRESS": "local",  # a cluster that somebody else started on this machine is not ours
    }


@contextlib.contextmanager
def superlink(home: Path) -> Iterator[None]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "sim"\n[superlink.sim]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    link = subprocess.Popen(
        "flower-superlink --insecure --simulation --disable-runtime-dependency-installation "
        f"--host 127.0.0.1 --port {port}".split(),
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while link.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(link.pid, signal.SIGTERM)
        link.wait()


def flower_run(home: Path, only: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run of the app; what its server found."""
    nodes = f"num-supernodes={CLIENTS} client-resources-num-cpus=1"
    command = ["flwr", "run", str(home / "app"), "sim", "--federation-config", nodes]
    command += ["-c", f"trials={options.trials} rounds={options.rounds} only={only}"]
    subprocess.run(command, env=environment(home), check=True, stdout=subprocess.DEVNULL)
    out, end = home / f"done{only}.json", time.monotonic() + options.patience
    while not out.exists():
        if time.monotonic() > end:
            raise SystemExit(f"the simulation did not end within {options.patience} s")
        time.sleep(0.05)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def flower(home: Path, way: str, options: argparse.Namespace) -> dict[str, float]:
    begun = time.perf_counter()
    with superlink(home):
        chosen = [-1] if way == "one-app" else range(options.trials)
        runs = [flower_run(home, only, options) for only in chosen]
        whole = time.perf_counter() - begun
    found = [one for run in runs for one in run["found"]]
    best = max(found, key=lambda one: one["validation"])
    return {"whole": whole, "bare": sum(run["bare"] for run in runs), "test": best["test"]}


def ours(home: Path, options: argparse.Namespace) -> dict[str, float]:
    begun = time.perf_counter()
    command = [sys.executable, str(home / "ours.py"), str(options.trials), str(options.rounds)]
    done = subprocess.run(command, env=environment(home), check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["rounds"] != options.trials * options.rounds:
        raise SystemExit(f"fedhpo trained {found['rounds']} rounds")
    return {"whole": time.perf_counter() - begun, "bare": found["bare"], "test": found["test"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--patience", type=float, default=900, help="seconds that one simulation may take")
    options = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    if not options.json:
        print(
            f"{'way':<10} {'whole':>8} {'bare':>8} {'test accuracy':>14} {'of fedhpo: whole':>17} {'bare':>7}"
        )
    for way in options.ways:
        with tempfile.TemporaryDirectory() as folder:
            prepare(Path(folder))
            one = ours(Path(folder), options) if way == "fedhpo" else flower(Path(folder), way, options)
        found[way] = one
        if not options.json:
            base = found.get("fedhpo", one)
            ratios = [one[name] / base[name] for name in ("whole", "bare")]
            print(
                f"{way:<10} {one['whole']:7.1f}s {one['bare']:7.1f}s {one['test']:14.4f} {ratios[0]:16.1f}x "
                f"{ratios[1]:6.1f}x",
                flush=True,
            )
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
