"""How fast is local training? Our engine, on all cores, against a plain and a lean PyTorch loop on one.

    python benchmarks/engine.py [--json] [--quick] [--seconds S] [--rounds 7] [--workers N]
        [--models mlp lstm] [--pfl PYTHON]

Each round trains 50 clients (10 of heavy models) of 160 samples with batches of 32, every one with its own
learning rate, momentum and weight decay. The plain loop is what most scripts do: `deepcopy` of the model,
`DataLoader`, `torch.optim.SGD`. The lean loop is the least that gives the same: one model, batches by index,
a fused step. With `--pfl`, an interpreter that has pfl-research (`pfl-requirements.txt`), that trains the
same rounds. All include getting the weights in and out and averaging them. They are interleaved, compared by
their medians. CPU time is that of the whole process tree for a round: using more cores does not make it less.
`sgemm_fraction` is the share of the machine's SGEMM peak that the engine's arithmetic reaches. The last line
is the memory of the whole process tree with 27 trials of the FEMNIST CNN, in a process of its own (`--memory`
measures that alone).

It ends: `--seconds` (480; 90 with `--quick`, which leaves memory out) are dealt out to the models, and a
model whose time is up has the rounds that it got, one at least. At the start it looks at the machine's load,
and says so where that is above 0.3: other work then counts in what is measured.
"""

from __future__ import annotations

import argparse
import copy
import functools
import gc
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import psutil
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).parent))

import fedhpo as fh
from engine_parts import models as engine_models
from fedhpo.data import FederatedData, from_clients
from fedhpo.federations.simulated import SimulatedFederation
from fedhpo.models import build
from fedhpo.protocol.federation import Work
from fedhpo.workers.spawn import cores

CLIENTS, ROWS, BATCH = 50, 160, 32
MEGABYTE = 1e6
#: Seconds. A model of short rounds gets as many as fit: a neighbour's burst is then not its median.
QUICK = 20.0
#: The most that a run takes, and the load that other work may be.
SECONDS, SECONDS_QUICK, MOST_LOAD = 480.0, 90.0, 0.3
#: Models whose operations `flops` does not know: attention, layers that are frozen, lookups.
UNCOUNTED = ("transformer", "lora", "embedding")


def data_of(
    shape: tuple[int, ...], classes: int, tokens: int = 0, clients_of: int = CLIENTS
) -> FederatedData:
    rng = np.random.default_rng(0)
    clients = []
    for _ in range(clients_of):
        if tokens:
            x = rng.integers(0, tokens, (ROWS, *shape)).astype(np.uint16 if tokens > 256 else np.uint8)
        else:
            x = rng.normal(size=(ROWS, *shape)).astype(np.float32)
        clients.append({"train": (x, rng.integers(0, classes, ROWS))})
    return from_clients(clients, classes=classes)


#: What builds a model, and its data: the memory of one must not count the data of others.
MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], FederatedData]]] = {}


def declare() -> None:
    def zoo(name: str, shape: tuple[int, ...], classes: int, **h: object) -> Callable[[], nn.Module]:
        return functools.partial(build, name, shape, classes, **h)

    MODELS["mlp"] = zoo("mlp", (784,), 62, hidden=(200,)), functools.partial(data_of, (784,), 62)
    MODELS["cnn_small"] = zoo("cnn_small", (3, 32, 32), 10), functools.partial(data_of, (3, 32, 32), 10)
    MODELS["cnn_femnist"] = zoo("cnn_leaf", (1, 28, 28), 62), functools.partial(data_of, (1, 28, 28), 62)
    MODELS["lstm"] = zoo("lstm", (80,), 80, hidden=128), functools.partial(data_of, (80,), 80, tokens=80)
    MODELS["mlp_digits"] = zoo("mlp", (64,), 10, hidden=(32,)), functools.partial(data_of, (64,), 10)
    images = functools.partial(data_of, (3, 32, 32), 10, clients_of=10)
    MODELS["resnet_gn"] = engine_models.resnet_gn, images
    MODELS["mobilenet"] = engine_models.mobilenet_like, images
    texts = functools.partial(engine_models.Texts, classes=10)
    MODELS["transformer"] = (
        functools.partial(texts, tokens=1000, width=128, layers=2),
        functools.partial(data_of, (32,), 10, tokens=1000, clients_of=10),
    )
    MODELS["lora"] = engine_models.Adapted, functools.partial(data_of, (1024,), 10, clients_of=10)
    MODELS["embedding"] = (
        functools.partial(texts, tokens=50_000, width=64, layers=0),
        functools.partial(data_of, (32,), 10, tokens=50_000, clients_of=10),
    )


def configs(clients: int = CLIENTS) -> list[dict[str, float]]:
    rng = np.random.default_rng(1)
    return [
        {
            "lr": float(10 ** rng.uniform(-3, -1)),
            "momentum": float(rng.uniform(0, 0.9)),
            "weight_decay": float(10 ** rng.uniform(-5, -2)),
            "batch_size": BATCH,
        }
        for _ in range(clients)
    ]


class Plain:
    """The loop that most scripts contain."""

    def __init__(self, factory: Callable[[], nn.Module], data: FederatedData) -> None:
        self.model = factory()
        self.sets = []
        for client in range(data.clients):
            rows = data.train.rows(client)
            x = torch.from_numpy(np.ascontiguousarray(data.x[rows]))
            x = x.long() if data.is_tokens else x.float()
            self.sets.append(TensorDataset(x, torch.from_numpy(np.ascontiguousarray(data.y[rows]))))

    def round(self, chosen: list[dict[str, float]]) -> None:
        total = None
        for dataset, h in zip(self.sets, chosen, strict=True):
            model = copy.deepcopy(self.model)
            model.train()
            optimiser = torch.optim.SGD(
                [p for p in model.parameters() if p.requires_grad],
                h["lr"],
                momentum=h["momentum"],
                weight_decay=h["weight_decay"],
            )
            for x, y in DataLoader(dataset, batch_size=BATCH, shuffle=True):
                optimiser.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimiser.step()
            state = model.state_dict()
            total = state if total is None else {k: total[k] + v for k, v in state.items()}
        assert total is not None
        self.model.load_state_dict({k: v / len(self.sets) for k, v in total.items()})


class Lean:
    """The least that a loop needs."""

    def __init__(self, factory: Callable[[], nn.Module], data: FederatedData) -> None:
        plain = Plain(factory, data)
        self.model, self.sets = plain.model.train(), [one.tensors for one in plain.sets]
        if any(isinstance(part, nn.Conv2d) for part in self.model.modules()):
            self.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]

    def round(self, chosen: list[dict[str, float]]) -> None:
        start = [p.detach().clone() for p in self.parameters]
        total = [torch.zeros_like(p) for p in start]
        for (x, y), h in zip(self.sets, chosen, strict=True):
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, start)
            velocities = [torch.zeros_like(p) for p in start]
            for rows in torch.randperm(len(x)).split(BATCH):
                loss = F.cross_entropy(self.model(x[rows]), y[rows])
                gradients = list(torch.autograd.grad(loss, self.parameters))
                with torch.no_grad():
                    torch._foreach_add_(gradients, self.parameters, alpha=h["weight_decay"])
                    torch._foreach_mul_(velocities, h["momentum"])
                    torch._foreach_add_(velocities, gradients)
                    torch._foreach_add_(self.parameters, velocities, alpha=-h["lr"])
            torch._foreach_add_(total, [p.detach() for p in self.parameters])
        with torch.no_grad():
            torch._foreach_div_(total, len(self.sets))
            torch._foreach_copy_(self.parameters, total)


class Peer:
    """pfl-research, in a process and an environment of its own; a line asks for a round."""

    def __init__(self, python: str, model: str) -> None:
        script = Path(__file__).with_name("pfl_rounds.py")
        self.process = subprocess.Popen(
            [python, script, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def round(self) -> tuple[float, float]:
        """Wall and CPU seconds of one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise SystemExit("--pfl: its process has ended, see above; was pfl-requirements.txt installed?")
        wall, cpu = json.loads(said)
        return wall, cpu

    def stop(self) -> None:
        self.process.communicate()


def flops(factory: Callable[[], nn.Module], data: FederatedData) -> float:
    """Floating-point operations of one round, without those of elementwise layers.

    A linear layer, a convolution or an LSTM does as many for its weights' gradients as in the forward pass,
    and as many again for its inputs' gradients, if there is something to train before it.
    """
    module = factory()  # before counting: our models pass a sample through to learn their sizes
    counts = {"forward": 0.0, "backward": 0.0}
    trained = [False]

    def count(part: nn.Module, inputs: tuple[torch.Tensor, ...], output: object) -> None:
        macs = _products(part, inputs[0])
        counts["forward"] += 2 * macs
        counts["backward"] += 2 * macs * (1 + trained[0])
        trained[0] = True

    kinds = nn.Linear | nn.modules.conv._ConvNd | nn.LSTM | nn.Embedding
    hooks = [part.register_forward_hook(count) for part in module.modules() if isinstance(part, kinds)]
    x = torch.zeros(1, *data.shape, dtype=torch.long if data.is_tokens else torch.float32)
    with torch.no_grad():
        module.eval()(x)
    for hook in hooks:
        hook.remove()
    return sum(counts.values()) * data.clients * ROWS


def _products(part: nn.Module, x: torch.Tensor) -> float:
    """Multiplications of numbers with weights, for a batch of one."""
    if isinstance(part, nn.LSTM):
        weights = sum(p.numel() for name, p in part.named_parameters() if "weight" in name)
        return float(x.shape[0] * x.shape[1] * weights)
    if isinstance(part, nn.modules.conv._ConvNd):
        with torch.no_grad():
            places = part._conv_forward(x, part.weight, None)[0, 0].numel()
        return float(places * part.weight.numel())
    if isinstance(part, nn.Linear):
        return float(x[..., 0].numel() * part.weight.numel())
    return 0.0  # an embedding looks up, it does not multiply


def sgemm_peak() -> float:
    """Floating-point operations a second of a large matrix product on all cores."""
    torch.set_num_threads(cores())
    a, b = torch.randn(2, 1536, 1536)
    best = 0.0
    for _ in range(6):
        begin = time.perf_counter()
        torch.mm(a, b)
        best = max(best, 2 * 1536**3 / (time.perf_counter() - begin))
    torch.set_num_threads(1)
    return best


def seconds(call: Callable[[], object], pids: Sequence[int] = ()) -> tuple[float, float]:
    """Wall and CPU seconds of a call; the CPU's with those of these processes."""
    begin, cpu = time.perf_counter(), cpu_seconds(pids)
    call()
    return time.perf_counter() - begin, cpu_seconds(pids) - cpu


def cpu_seconds(pids: Sequence[int]) -> float:
    return time.process_time() + sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def tree_memory() -> float:
    """Memory of this process and its workers in bytes, shared pages counted once."""
    parent = psutil.Process()
    return sum(p.memory_full_info().pss for p in [parent, *parent.children(recursive=True)])


def memory_of_27_trials(workers: int | None) -> float:
    """Peak memory of the whole tree, in bytes, while 27 trials of the FEMNIST CNN train side by side."""
    factory, rows = MODELS["cnn_femnist"]
    with fh.simulate(factory, rows(), server="fedavgm", workers=workers) as federation:
        for trial in range(27):
            federation.start(trial, {}, seed=trial)
        peak = 0.0
        for _ in range(2):
            for trial in range(27):
                federation.submit(Work(trial, range(10), {"lr": 0.01}, {"momentum": 0.9}, scores=()))
            for _ in range(27):
                federation.next_done()
                peak = max(peak, tree_memory())
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=7, help="at least; more for quick models")
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--pfl", metavar="PYTHON", help="an interpreter that has pfl-research")
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument(
        "--quick", action="store_true", help="one or more rounds, no memory: below two minutes"
    )
    parser.add_argument(
        "--seconds", type=float, help=f"at most; {SECONDS:.0f}, or {SECONDS_QUICK:.0f} if quick"
    )
    parser.add_argument("--memory", action="store_true", help="megabytes of 27 trials, nothing else")
    options = parser.parse_args()
    torch.set_num_threads(1)
    declare()
    begun = time.perf_counter()
    limit = options.seconds or (SECONDS_QUICK if options.quick else SECONDS)
    least = 1 if options.quick else options.rounds
    if options.memory:
        print(memory_of_27_trials(options.workers) / MEGABYTE)
        return
    if unknown := set(options.models or ()) - set(MODELS):
        parser.error(f"no model {', '.join(sorted(unknown))}; there are {', '.join(MODELS)}")
    load = psutil.getloadavg()[0]
    if load > MOST_LOAD:
        print(
            f"the load is {load:.2f}: other work is measured too; below {MOST_LOAD} it is quiet",
            file=sys.stderr,
        )
    names, peak = list(options.models or MODELS), 0.0
    result: dict[str, dict[str, float]] = {
        "speedup": {},
        "sgemm_fraction": {},
        "seconds": {},
        "plain_seconds": {},
        "lean_seconds": {},
        "cpu_seconds": {},
        "plain_cpu_seconds": {},
        "lean_cpu_seconds": {},
        "pfl_seconds": {},
        "pfl_cpu_seconds": {},
        "cpu_of_lean": {},
    }
    for place, name in enumerate(names):
        left = limit - (time.perf_counter() - begun)
        if left <= 0 and place:
            print(f"{limit:.0f} s are over: without {', '.join(names[place:])}", file=sys.stderr)
            break
        factory, rows = MODELS[name]
        data = rows()
        chosen = configs(data.clients)
        plain, lean = Plain(factory, data), Lean(factory, data)
        federation: SimulatedFederation
        with fh.simulate(factory, data, weighting="uniform", workers=options.workers) as federation:
            federation.start(0, {}, seed=0)
            work = Work(0, range(data.clients), chosen, {}, scores=())
            federation.round([work])
            plain.round(chosen)
            lean.round(chosen)
            peer = Peer(options.pfl, name) if options.pfl else None
            if peer:
                peer.round()
            gc.collect()  # what importing left behind is nobody's cost
            times: dict[str, list[tuple[float, float]]] = {"": [], "plain_": [], "lean_": []}
            share = time.perf_counter() + left / (len(names) - place)
            enough = min(time.perf_counter() + QUICK, share)
            while not times[""] or (
                time.perf_counter() < share and (len(times[""]) < least or time.perf_counter() < enough)
            ):
                times[""].append(seconds(functools.partial(federation.round, [work]), federation.pids))
                times["plain_"].append(seconds(functools.partial(plain.round, chosen)))
                times["lean_"].append(seconds(functools.partial(lean.round, chosen)))
                if peer:
                    times.setdefault("pfl_", []).append(peer.round())
            if peer:
                peer.stop()
            # Not between the rounds: threads of a parallel product spin on after it, on our CPU account.
            if not peak or not options.quick:
                peak = statistics.median(sgemm_peak() for _ in range(1 if options.quick else 3))
        for kind, found in times.items():
            result[f"{kind}seconds"][name] = statistics.median(wall for wall, _ in found)
            # Of other processes the system counts hundredths of a second: hence the mean.
            result[f"{kind}cpu_seconds"][name] = statistics.fmean(cpu for _, cpu in found)
        mine = result["seconds"][name]
        result["cpu_of_lean"][name] = result["cpu_seconds"][name] / result["lean_cpu_seconds"][name]
        result["speedup"][name] = result["plain_seconds"][name] / mine
        if name not in UNCOUNTED:
            result["sgemm_fraction"][name] = flops(factory, data) / mine / peak
        if not options.json:
            if len(result["speedup"]) == 1:
                print(
                    f"{'model':<12} {'plain':>9} {'lean':>9} {'engine':>9} {'speed-up':>9} "
                    f"{'of SGEMM peak':>14} {'CPU: lean':>10} {'engine':>9} {'engine of lean':>15}"
                )
            pfl = ""
            if options.pfl:
                wall, cpu = 1e3 * result["pfl_seconds"][name], 1e3 * result["pfl_cpu_seconds"][name]
                pfl = f"   pfl-research {wall:7.0f}ms, CPU {cpu:7.0f}ms"
            print(
                f"{name:<12} {1e3 * result['plain_seconds'][name]:7.0f}ms "
                f"{1e3 * result['lean_seconds'][name]:7.0f}ms {1e3 * mine:7.0f}ms "
                f"{result['speedup'][name]:8.2f}x "
                f"{100 * result['sgemm_fraction'].get(name, math.nan):13.0f}% "
                f"{1e3 * result['lean_cpu_seconds'][name]:8.0f}ms {1e3 * result['cpu_seconds'][name]:7.0f}ms "
                f"{result['cpu_of_lean'][name]:14.2f}x" + pfl,
                flush=True,
            )
        del plain, lean, data
    result["load"] = {"at the start": load}
    if not (options.no_memory or options.quick):
        workers = [] if options.workers is None else ["--workers", str(options.workers)]
        # What other models left behind in this process is not theirs.
        said = subprocess.check_output([sys.executable, __file__, "--memory", *workers], text=True)
        result["memory_mb"] = {"27 trials of cnn_femnist": float(said)}
        if not options.json:
            print(f"memory of 27 trials of the FEMNIST CNN: {result['memory_mb'].popitem()[1]:.0f} MB")
    if options.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
