"""What FlowerFederation costs on top of Flower: `python benchmarks/flower.py [--simulation]`.

A round of ten clients that do nothing, in one process: through `FlowerFederation`, and bare, by a loop that
sends a model to every node through the same grid and adds up what comes back. With `--simulation` also our
share of a round in Flower's simulation runtime, measured inside its ServerApp.
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
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

import fedhpo as fh
from fedhpo.flower import Arrays, FlowerFederation, InProcessGrid, Scored, Trained, client

CLIENTS = 10
#: Arrays of a small MLP, and of a small CNN.
MODELS = {
    "2,410 numbers in 4 arrays": [(32, 64), (32,), (10, 32), (10,)],
    "620,000 numbers in 8 arrays": [
        (32, 3, 5, 5),
        (32,),
        (64, 32, 5, 5),
        (64,),
        (512, 1024),
        (512,),
        (62, 512),
        (62,),
    ],
}


def no_op(arrays, task, context):
    return Trained(arrays, train_size=10, validation_size=1, loss_before=1.0, loss_after=1.0)


def ours(shapes, rounds):
    """Seconds of a round through the federation."""
    app = client(ClientApp(), train=no_op, evaluate=lambda arrays, task, context: Scored(1, 1.0))
    model = Arrays(lambda seed: {str(i): np.zeros(shape, np.float32) for i, shape in enumerate(shapes)})
    with FlowerFederation(InProcessGrid(app, CLIENTS), model, clients=CLIENTS) as federation:
        federation.start(0, {}, 0)
        work = fh.Work(0, range(CLIENTS), {"lr": 0.1})
        return measure(lambda: federation.round([work]), rounds)


def bare(shapes, rounds):
    """Seconds of the same without fedhpo: send, train nothing, pull, take the mean."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        arrays = message.content["model"].to_numpy_ndarrays()
        return Message(
            RecordDict({"model": ArrayRecord(arrays), "sizes": ConfigRecord({"train": 10})}), reply_to=message
        )

    grid = InProcessGrid(app, CLIENTS)
    weights = [np.zeros(shape, np.float32) for shape in shapes]

    def one():
        encoded = {str(i): Array(array) for i, array in enumerate(weights)}
        messages = [
            Message(
                RecordDict({"model": ArrayRecord(encoded), "config": ConfigRecord({"lr": 0.1})}),
                node,
                "train",
            )
            for node in grid.get_node_ids()
        ]
        replies = list(grid.pull_messages(grid.push_messages(messages)))
        models = [reply.content["model"].to_numpy_ndarrays() for reply in replies]
        for place, arrays in enumerate(zip(*models, strict=True)):
            weights[place] = np.mean(arrays, axis=0, dtype=np.float32)

    return measure(one, rounds)


def measure(one, rounds):
    """The median of CPU seconds: other work on the machine comes and goes."""
    one()
    seconds = []
    for _ in range(rounds):
        begun = time.process_time()
        one()
        seconds.append(time.process_time() - begun)
    return float(np.median(seconds))


APP = {
    "pyproject.toml": """\
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
out = ""
rounds = 30
""",
    "bench/__init__.py": "",
    "bench/client_app.py": """\
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

from fedhpo.flower import Scored, Trained, client


def train(arrays, task, context):
    return Trained(arrays, train_size=10, validation_size=1, loss_before=1.0, loss_after=1.0)


app = client(ClientApp(), train=train, evaluate=lambda arrays, task, context: Scored(1, 1.0))


@app.train("bare")
def bare(message, context):
    arrays = message.content["model"].to_numpy_ndarrays()
    return Message(RecordDict({"model": ArrayRecord(arrays)}), reply_to=message)
""",
    "bench/server_app.py": """\
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

import fedhpo as fh
from fedhpo.flower import Arrays, FlowerFederation

app = ServerApp()
SHAPES = [(32, 64), (32,), (10, 32), (10,)]


@app.main()
def main(grid, context):
    model = Arrays(lambda seed: {str(i): np.zeros(shape, np.float32) for i, shape in enumerate(SHAPES)})
    federation = FlowerFederation(grid, model, clients=10)
    federation.start(0, {}, 0)
    work = fh.Work(0, range(10), {"lr": 0.1})
    weights = [np.zeros(shape, np.float32) for shape in SHAPES]

    def bare():
        encoded = {str(i): Array(array) for i, array in enumerate(weights)}
        nodes = list(grid.get_node_ids())
        messages = [
            Message(RecordDict({"model": ArrayRecord(encoded)}), node, "train.bare") for node in nodes
        ]
        waiting, models = set(grid.push_messages(messages)), []
        while waiting:
            for reply in grid.pull_messages(waiting):
                waiting.discard(reply.metadata.reply_to_message_id)
                models.append(reply.content["model"].to_numpy_ndarrays())
            time.sleep(0.002)
        for place, arrays in enumerate(zip(*models, strict=True)):
            weights[place] = np.mean(arrays, axis=0, dtype=np.float32)

    seconds = {"ours": [], "ours_cpu": [], "bare": []}
    for _ in range(context.run_config["rounds"]):
        begun, used = time.perf_counter(), time.thread_time()
        federation.round([work])
        seconds["ours"].append(time.perf_counter() - begun)
        seconds["ours_cpu"].append(time.thread_time() - used)
        begun = time.perf_counter()
        bare()
        seconds["bare"].append(time.perf_counter() - begun)
    Path(context.run_config["out"]).write_text(json.dumps(seconds))
""",
}


def simulation(rounds):
    """Rounds in Flower's simulation runtime, ours and bare in turn: seconds, and our thread's CPU seconds."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        home = Path(folder)
        for place, text in APP.items():
            (home / "app" / place).parent.mkdir(parents=True, exist_ok=True)
            (home / "app" / place).write_text(text)
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        (home / "config.toml").write_text(
            f'[superlink]\ndefault = "sim"\n[superlink.sim]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
        )
        bin = Path(sys.executable).parent
        environment = {
            **os.environ,
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": folder,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_ADDRESS": "local",  # a cluster that somebody else started on this machine is not ours
        }
        link = subprocess.Popen(
            "flower-superlink --insecure --simulation --disable-runtime-dependency-installation "
            f"--host 127.0.0.1 --port {port}".split(),
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        stack.callback(lambda: (os.killpg(link.pid, signal.SIGTERM), link.wait()))
        with contextlib.suppress(subprocess.TimeoutExpired):
            link.wait(10)
        out = home / "seconds.json"
        nodes = f"num-supernodes={CLIENTS} client-resources-num-cpus=1"
        command = ["flwr", "run", str(home / "app"), "sim", "--federation-config", nodes]
        command += ["-c", f'out="{out}" rounds={rounds}']
        subprocess.run(command, env=environment, check=True)
        end = time.monotonic() + 600
        while not out.exists():
            if time.monotonic() > end:
                raise SystemExit("the simulation did not end within 600 s")
            time.sleep(1)
        time.sleep(1)
        found = json.loads(out.read_text())
        ours, bare = (float(np.median(found[name])) for name in ("ours", "bare"))
        own = float(np.median(found["ours_cpu"]))
        print(
            f"Flower's simulation, medians of {rounds} rounds in turn: bare {bare:.3f} s, ours {ours:.3f} s"
        )
        print(
            f"our server's thread works {1e3 * own:.1f} ms of that, {own / ours:.0%}, Flower's calls included"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--simulation", action="store_true")
    options = parser.parse_args()
    print(f"a round of {CLIENTS} clients that do nothing, in process; medians of {options.rounds}")
    for name, shapes in MODELS.items():
        first, second = bare(shapes, options.rounds), ours(shapes, options.rounds)
        times = f"bare {1e3 * first:.2f} ms, FlowerFederation {1e3 * second:.2f} ms"
        print(f"{name}: {times}, {second / first:.2f}x")
    if options.simulation:
        simulation(options.rounds)


if __name__ == "__main__":
    main()
