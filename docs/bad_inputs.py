"""Bad inputs: each case is a study file or a command with one mistake in it.

`docs/_make.py` writes the page from what they really print; `tests/test_bad_inputs.py` runs the same cases.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedhpo.cli import main

GOOD = {
    "data": 'name = "digits"\nclients = 10',
    "model": 'name = "mlp"',
    "space.client": "lr = { low = 0.01, high = 1.0, log = true }",
    "method": 'name = "random"\ntrials = 2',
    "budget": "rounds = 2\ntotal = 4\ncohort = 5",
}
TUNE = ("tune", "study.toml", "--workers", "0", "--quiet")


@dataclass(frozen=True)
class Case:
    """A mistake, how it is made, and the key or file that the message must name."""

    mistake: str
    names: str
    sections: dict[str, str] = field(default_factory=dict)
    without: str = ""
    top: str = ""
    text: str | bytes | None = None
    files: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = TUNE
    before: Callable[[Path], Any] | None = None
    python: str = ""

    @property
    def shown(self) -> str:
        """What was wrong in the input, for the page."""
        if self.python:
            return f"`{self.python}`"
        if self.command != TUNE:
            return f"`fedhpo {' '.join(self.command)}`"
        if isinstance(self.text, str):
            return f"`{self.text.strip()}`"
        given = [f"[{name}] {text}" for name, text in self.sections.items()]
        return (
            f"`{'; '.join([self.top, *given]).strip('; ')}`".replace("\n", ", ") if given or self.top else ""
        )

    def write(self, folder: Path) -> None:
        """Make the files of the case, the study among them."""
        sections = {name: text for name, text in (GOOD | self.sections).items() if name != self.without}
        good = "\n".join([self.top, *(f"[{name}]\n{text}" for name, text in sections.items())]) + "\n"
        given = good if self.text is None else self.text
        (folder / "study.toml").write_bytes(given if isinstance(given, bytes) else given.encode())
        for name, content in self.files.items():
            (folder / name).write_text(content)
        if self.before is not None:
            self.before(folder)

    def run(self, folder: Path) -> tuple[int, str]:
        """Exit code and what was printed; `folder` is the working directory."""
        before = Path.cwd()
        os.chdir(folder)
        printed = io.StringIO()
        try:
            self.write(Path())
            with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
                code = self._call() if self.python else main(self.command)
        finally:
            os.chdir(before)
        lines = [line for line in printed.getvalue().splitlines() if not line.startswith("usage:")]
        return code, re.sub(r"pid \d+", "pid 4711", "\n".join(line for line in lines if line[:1].strip()))

    def _call(self) -> int:
        """Make the Python call; what it raises is printed."""
        import numpy as np

        import fedhpo as fh
        from fedhpo.testing import ToyFederation

        space = fh.Space(client={"lr": fh.Float(0.001, 1.0, log=True)})
        names = {"fh": fh, "np": np, "space": space, "federation": ToyFederation()}
        try:
            exec(self.python, names)
        except fh.InputError as error:
            print(f"InputError: {error}")
            return 2
        return 0


def _begun(folder: Path) -> Path:
    """A run of the good study."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(TUNE) == 0
    return folder / "runs" / "study"


def _truncated(folder: Path) -> None:
    record = _begun(folder) / "record.sqlite"
    for left in record.parent.glob("record.sqlite-*"):
        left.unlink()
    record.write_bytes(record.read_bytes()[:5000])


_LOCKS: list[Any] = []  # held as long as this process lives


def _in_use(folder: Path) -> None:
    from fedhpo.run.lock import Lock

    _LOCKS.append(Lock(_begun(folder) / "lock"))


def _foreign(folder: Path) -> None:
    (folder / "runs" / "study").mkdir(parents=True)
    (folder / "runs" / "study" / "thesis.tex").touch()


OWN_DATA = """
import numpy as np

def raises(clients=3):
    raise ValueError("the archive is empty")

def nothing():
    return []

def unequal():
    return [(np.zeros((10, 4)), np.zeros(9, dtype=int))]

def not_finite():
    x = np.zeros((20, 4))
    x[3, 1] = np.nan
    return [(x, np.arange(20) % 2)] * 5
"""

CASES = [
    # The file
    Case("no such file", "stduy.toml", command=("tune", "stduy.toml")),
    Case("not TOML", "study.toml", text="seed = \n"),
    Case("not a text file", "study.toml", text=b"\xff\xfe\x00"),
    Case("a section is missing", "budget", without="budget"),
    Case("a section is misspelt", "buget", {"buget": "rounds = 2"}),
    Case("a section is a value", "server", top="server = 3"),
    Case("a key is missing", "budget.rounds", {"budget": "total = 20"}),
    Case("a key is misspelt", "round", {"budget": "rounds = 2\nround = 3"}),
    Case("wrong type", "budget.rounds", {"budget": 'rounds = "forty"'}),
    Case("not a whole number", "budget.rounds", {"budget": "rounds = 2.5"}),
    Case("true is not a number", "budget.cohort", {"budget": "rounds = 2\ncohort = true"}),
    Case("out of range", "budget.rounds", {"budget": "rounds = 0"}),
    Case("negative seed", "seed", top="seed = -1"),
    Case("a date", "seed", top="seed = 2024-01-01"),
    Case("a number beyond 64 bits", "seed", top=f"seed = {10**30}"),
    Case("nested too deeply", "study.toml", text="seed = " + "[" * 40 + "]" * 40 + "\n"),
    # The data
    Case("unknown data set", "data.name", {"data": 'name = "digit"'}),
    Case("unknown option of the data set", "data", {"data": 'name = "digits"\nimages = true'}),
    Case(
        "unknown partition", "data.partition", {"data": 'name = "digits"\npartition = { kind = "dirichelt" }'}
    ),
    Case("kind is a list", "data.partition", {"data": 'name = "digits"\npartition = { kind = ["iid"] }'}),
    Case(
        "quantity is a string",
        "quantity",
        {"data": 'name = "digits"\npartition = { kind = "gaussian", quantity = "many" }'},
    ),
    Case("partition lacks a key", "alpha", {"data": 'name = "digits"\npartition = { kind = "dirichlet" }'}),
    Case(
        "partition out of range",
        "alpha",
        {"data": 'name = "digits"\npartition = { kind = "dirichlet", alpha = -1.0 }'},
    ),
    Case("unknown split", "data.split", {"data": 'name = "digits"\nsplit = { kind = "pool" }'}),
    Case(
        "nothing left to train on",
        "data.split",
        {"data": 'name = "digits"\nsplit = { kind = "inside", validation = 0.6, test = 0.5 }'},
    ),
    Case("more clients than rows", "clients", {"data": 'name = "digits"\nclients = 5000'}),
    Case("no data directory", "path", {"data": 'name = "cifar10"\npath = "nowhere"'}),
    Case("module does not exist", "data.name", {"data": 'name = "my_dta:load"'}),
    Case(
        "module does not import",
        "mine_broken",
        {"data": 'name = "mine_broken:load"'},
        files={"mine_broken.py": "import padnas\n"},
    ),
    Case(
        "name not in the module",
        "data.name",
        {"data": 'name = "mine_data:raise"'},
        files={"mine_data.py": OWN_DATA},
    ),
    Case(
        "wrong argument",
        "data.name",
        {"data": 'name = "mine_data:raises"\nclient = 3'},
        files={"mine_data.py": OWN_DATA},
    ),
    Case(
        "own function raises",
        "data.name",
        {"data": 'name = "mine_data:raises"'},
        files={"mine_data.py": OWN_DATA},
    ),
    Case(
        "own function returns no clients",
        "data.name",
        {"data": 'name = "mine_data:nothing"'},
        files={"mine_data.py": OWN_DATA},
    ),
    Case(
        "rows and labels differ",
        "data.name",
        {"data": 'name = "mine_data:unequal"'},
        files={"mine_data.py": OWN_DATA},
    ),
    Case(
        "data not finite",
        "data.name",
        {"data": 'name = "mine_data:not_finite"'},
        files={"mine_data.py": OWN_DATA},
    ),
    # The model
    Case("unknown model", "model.name", {"model": 'name = "mpl"'}),
    Case("unknown hyperparameter of the model", "model.hiden", {"model": 'name = "mlp"\nhiden = 16'}),
    Case(
        "fixed and tuned",
        "model.hidden",
        {"model": 'name = "mlp"\nhidden = 16', "space.model": "hidden = { choices = [16, 32] }"},
    ),
    Case(
        "syntax error in the user's module",
        "model.name",
        {"model": 'name = "mine_syntax:Net"'},
        files={"mine_syntax.py": "class Net(:\n"},
    ),
    Case("not a function or class", "model.name", {"model": 'name = "math:pi"'}),
    Case("model does not fit the data", "model.name", {"model": 'name = "cnn_cifar"'}),
    # The space
    Case("nothing to tune", "space", {"space.client": "lr = 0.1"}),
    Case("unknown scope", "sever", {"space.sever": "lr = 1.0"}),
    Case(
        "unknown client hyperparameter",
        "space.client.learning_rate",
        {"space.client": "learning_rate = { low = 0.1, high = 1.0 }"},
    ),
    Case("low above high", "space.client.lr", {"space.client": "lr = { low = 1.0, high = 0.1 }"}),
    Case(
        "range not allowed", "space.client.momentum", {"space.client": "momentum = { low = 0.0, high = 1.5 }"}
    ),
    Case(
        "log scale from 0", "space.client.lr", {"space.client": "lr = { low = 0.0, high = 1.0, log = true }"}
    ),
    Case("a bare list", "space.client.batch_size", {"space.client": "batch_size = [8, 16]"}),
    Case(
        "unknown key of a hyperparameter",
        "space.client.lr",
        {"space.client": "lr = { low = 0.1, hihg = 1.0 }"},
    ),
    Case("min and max", "did you mean 'high'", {"space.client": "lr = { min = 0.1, max = 1.0 }"}),
    Case("type is a list", "space.client.lr", {"space.client": "lr = { low = 0.1, high = 1.0, type = [] }"}),
    Case("hyperparameter of another server optimiser", "space.server.beta1", {"space.server": "beta1 = 0.9"}),
    Case("unknown server optimiser", "server.optimiser", {"server": 'optimiser = "adam"'}),
    # The method, the objective, the evaluation
    Case("unknown method", "method.name", {"method": 'name = "hsa"'}),
    Case("a method in capitals", "did you mean 'sha'", {"method": 'name = "SHA"'}),
    Case("a method misspelt", "did you mean 'fedex'", {"method": 'name = "fedexx"'}),
    Case(
        "a method that privacy does not cover",
        "fedpop",
        {
            "method": 'name = "fedpop"\npopulation = 2',
            "evaluation": "privacy = { epsilon = 10.0 }",
            "server": 'weighting = "uniform"',
        },
    ),
    Case("unknown setting of the method", "method", {"method": 'name = "sha"\neta = 3'}),
    Case("setting of the wrong type", "method.trials", {"method": 'name = "random"\ntrials = "all"'}),
    Case("unknown metric", "objective.metric", {"objective": 'metric = "acuracy"'}),
    Case("unknown objective", "objectives[1]", top='objectives = ["accuracy", "bytes_upp"]'),
    Case("a cost as the first objective", "objectives[0]", top='objectives = ["bytes_up", "accuracy"]'),
    Case("a constraint without a limit", "constraints[0]", top='constraints = ["loss_worst"]'),
    Case(
        "a method of one objective",
        "robust",
        {"method": 'name = "robust"'},
        top='objectives = ["accuracy", "bytes_up"]',
    ),
    Case("share above 1", "evaluation.clients", {"evaluation": "clients = 2.5"}),
    Case("more clients than hold validation data", "evaluation.clients", {"evaluation": "clients = 1000"}),
    # The budget
    Case("cohort larger than the federation", "budget.cohort", {"budget": "rounds = 2\ncohort = 11"}),
    Case("total below one training", "budget.total", {"budget": "rounds = 20\ntotal = 10\ncohort = 5"}),
    Case(
        "budget below one rung",
        "total",
        {"method": 'name = "sha"\ntrials = 27', "budget": "rounds = 3\ntotal = 20\ncohort = 5"},
    ),
    # From Python
    Case(
        "a range as a tuple",
        "fedhpo.Float(0.001, 1.0, log=True)",
        python='fh.Space(client={"lr": (1e-3, 1.0)})',
    ),
    Case("options as a list", "fedhpo.Choice", python='fh.Space(client={"optimiser": ["sgd", "adam"]})'),
    Case(
        "no scope in a config",
        "client.lr",
        python='fh.tune(federation, space, rounds=5, enqueue=[{"lr": 0.1}])',
    ),
    Case("a mapping as a space", "space", python='fh.tune(federation, {"lr": 0.1}, rounds=5)'),
    Case(
        "a callback without an argument",
        "callbacks[0]",
        python="fh.tune(federation, space, rounds=5, callbacks=[lambda: None])",
    ),
    Case("another method's name", "fedex", python='fh.tune(federation, space, "fedexx", rounds=5)'),
    Case("a setting of the wrong type", "trials", python='fh.SHA(trials="27")'),
    Case("a number that is none", "gamma", python='fh.TPE(gamma=float("nan"))'),
    Case("uncertainty that counts nothing", "alpha", python="fh.FLoRA(alpha=0)"),
    Case("more pairs than a process takes", "best", python='fh.FLoRA(configs=2000, regressor="gp")'),
    Case(
        "unknown model, from Python",
        "resnet",
        python='fh.simulate("resnet50", fh.load("digits", clients=5))',
    ),
    Case(
        "no such device",
        "device",
        python='fh.simulate("mlp", fh.load("digits", clients=5), device="nowhere")',
    ),
    Case("features without labels", "client 0", python="fh.from_clients([np.zeros((10, 3))])"),
    Case("features alone in a tuple", "client 0", python="fh.from_clients([(np.zeros((10, 3)),)])"),
    Case("one array for all clients", "from_arrays", python="fh.from_clients(np.zeros((10, 3)))"),
    # Clients that come and go
    Case("unknown pattern of presence", "federation.availability", {"federation": 'availability = "nights"'}),
    Case("no such trace", "availability", {"federation": 'availability = "trace.csv"'}),
    Case(
        "a trace without its columns",
        "begin",
        {"federation": 'availability = "trace.csv"'},
        files={"trace.csv": "client,from,to\n0,0,10\n"},
    ),
    Case("all clients drop out", "federation.dropouts", {"federation": "dropouts = 1.0"}),
    Case(
        "nights of more than a night",
        "share",
        {"federation": 'availability = "day_night"\nshare = 0.9'},
    ),
    Case(
        "a learner has no clock",
        "model",
        {"model": 'name = "svm"', "space.client": "C = { low = 0.1, high = 1.0 }", "budget": "rounds = 1"},
        command=("plan", "study.toml"),
    ),
    Case(
        "a table with a clock",
        "federation",
        {"federation": "speed = 10.0"},
        command=("table", "build", "study.toml", "--configs", "2", "--quiet"),
    ),
    # The command line and the run
    Case("unknown command", "tnue", command=("tnue", "study.toml")),
    Case("no time", "--timeout", command=("tune", "study.toml", "--timeout", "0")),
    Case("negative workers", "--workers", command=("tune", "study.toml", "--workers", "-1")),
    Case("name with a slash", "a/b", command=("tune", "study.toml", "--name", "a/b")),
    Case("run directory not writable", "study.toml/study", command=(*TUNE, "--runs", "study.toml")),
    Case("directory holds something else", "thesis.tex", before=_foreign),
    Case("run in use", "runs/study", before=_in_use),
    Case("truncated record", "record.sqlite", before=_truncated),
    Case("no such run", "runs/gone", command=("resume", "runs/gone")),
    Case("not a run", "RUN", command=("resume", ".")),
    Case("report on no run", "runs/gone", command=("report", "runs/gone")),
    Case("no such directory", "gone", command=("runs", "gone")),
]


def page(results: list[tuple[int, str]]) -> str:
    """The documentation page."""
    lines = [
        "# Bad inputs, and what they print",
        "",
        "Every mistake of a user ends with exit code 2 and a message that names the file, the key, what was",
        "found and what is allowed; no traceback. From Python it is a `fedhpo.InputError`. This page is made",
        "by `python docs/_make.py` from real runs, and the tests run the same cases; `benchmarks/fuzz.py`",
        "looks for more of them.",
        "",
        "| mistake | input | what is printed |",
        "| --- | --- | --- |",
    ]
    for case, (_, printed) in zip(CASES, results, strict=True):
        cells = (case.mistake, case.shown, "<br>".join(f"`{line}`" for line in printed.splitlines()))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
