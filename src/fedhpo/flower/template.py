"""A new Flower app that tunes a study: what `fedhpo new flower` writes."""

from __future__ import annotations

from pathlib import Path
from string import Template

from fedhpo.flower.finetune_template import finetune_files
from fedhpo.parties.first_study import first_study

_PYPROJECT = Template("""\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$name"
version = "1.0.0"
description = "Federated hyperparameter optimisation with Flower and fedhpo"
license = "Apache-2.0"
dependencies = ["fedhpo[flower]", "flwr>=1.41,<2"]

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "$package"

[tool.flwr.app.components]
serverapp = "$package.server_app:app"
clientapp = "$package.client_app:app"

[tool.flwr.app.config]
# Where the server keeps the run: an absolute path on its machine. The same path again resumes the run.
run-dir = "$run"
""")

_SERVER = '''\
"""The server: tunes the study over the clients that Flower brings."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

import fedhpo.flower
from fedhpo.report import write_report

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    result = fedhpo.flower.tune(grid, context, Path(__file__).with_name("study.toml"))
    report = write_report([result.run], result.run / "report.html")
    print(f"best config: {result.best_config}")
    print(f"report: {report}")
'''

_CLIENT = '''\
"""A client: trains the study's model on its own rows."""

from pathlib import Path

from flwr.clientapp import ClientApp

import fedhpo.flower

# For a first run every node takes its part (partition-id) of the study's own data. Real clients bring their
# rows: fedhpo.flower.client(..., data=function), where function(context) reads them from this machine.
app = fedhpo.flower.client(ClientApp(), study=Path(__file__).with_name("study.toml"))
'''

_MAIN = Template('''\
"""The whole app in this process, for a first look: python -m $package"""

import tomllib
from pathlib import Path

from fedhpo.flower import run_in_process
from $package import client_app, server_app

if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    config = project["tool"]["flwr"]["app"]["config"]
    run_in_process(server_app.app, client_app.app, nodes=10, run_config=config)
''')

_README = Template("""\
# $name

Tunes `$package/study.toml` over the clients of a Flower federation with fedhpo.

```
pip install -e .
python -m $package                # ten clients in this process, a first look
flwr run .                        # Flower's simulation
flwr run . NAME --stream          # a deployment: see fedhpo's docs/flower.md
```

The run is kept where `run-dir` in `pyproject.toml` says; the same path again resumes it, another begins anew:
`flwr run . -c 'run-dir="/somewhere/else"'`.
""")


_IGNORED = """\
# Flower leaves these out of the bundle that it sends to clients, too.
runs/
*.fab
__pycache__/
"""


def app_files(name: str, directory: Path, finetune: bool = False) -> dict[str, str]:
    """The files of an app by their places in its directory; `finetune` is one that trains adapters."""
    package = name.replace("-", "_")
    words = {"name": name, "package": package, "run": (directory / "runs" / "first").absolute().as_posix()}
    project = _PYPROJECT.substitute(words)
    if finetune:
        project = project.replace("fedhpo[flower]", "fedhpo[flower,finetune]")
    return {
        "pyproject.toml": project,
        "README.md": _README.substitute(words),
        ".gitignore": _IGNORED,
        f"{package}/__init__.py": f'"""{name}: tuned with fedhpo over Flower."""\n',
        f"{package}/__main__.py": _MAIN.substitute(words),
        f"{package}/server_app.py": _SERVER,
        f"{package}/client_app.py": _CLIENT,
        f"{package}/study.toml": first_study("flower", clients=10, wanted=2),
        **(finetune_files(package) if finetune else {}),
    }
