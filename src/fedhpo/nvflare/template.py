"""A new NVFlare job that tunes a study: what `fedhpo new nvflare` writes."""

from __future__ import annotations

from string import Template

from fedhpo.parties.first_study import first_study

_JOB = Template('''\
"""The job: python job.py runs it in NVFlare's simulator, python job.py KIT in a deployment.

KIT is the directory of the administrator's startup kit. The same run directory again resumes the run.
"""

import argparse
from pathlib import Path

from nvflare.recipe import ProdEnv, SimEnv

import fedhpo.nvflare
from client import OwnClient
from fedhpo.study import Study

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kit", nargs="?", help="the administrator's startup kit; without it, the simulator")
    parser.add_argument("--run", default=str(HERE / "runs" / "first"), help="on the server's machine")
    options = parser.parse_args()
    study = Study.load(HERE / "study.toml")
    job = fedhpo.nvflare.recipe("$name", study, options.run, client=OwnClient(dict(study.given)))
    if options.kit:
        administrator = Path(options.kit).resolve().name
        print(job.execute(ProdEnv(startup_kit_location=options.kit, username=administrator)).get_job_id())
    else:
        sites = study.file.nvflare.clients
        job.execute(SimEnv(num_clients=sites, workspace_root=str(HERE / "runs" / "simulator")))


if __name__ == "__main__":
    main()
''')

_CLIENT = '''\
"""A client: trains the study's model on its own rows."""

from fedhpo.nvflare import Client


class OwnClient(Client):
    """For a first run site-3 takes the third part of the study's own data.

    Real clients bring their rows: give this class a method data(self, site) that reads them from the site's
    machine, and returns fedhpo.from_clients([(x, y)], classes=10).
    """
'''

_README = Template("""\
# $name

Tunes `study.toml` over the clients of an NVIDIA FLARE federation with fedhpo.

```
pip install 'fedhpo[nvflare]'
python job.py                     # four clients in NVFlare's simulator
python job.py KIT --run /srv/fedhpo/first    # a deployment: see fedhpo's docs/nvflare.md
```

The run is kept in `runs/first`, or where `--run` says. The same directory again resumes it, another begins
anew.
""")

_IGNORED = """\
runs/
__pycache__/
"""


def job_files(name: str) -> dict[str, str]:
    """The files of a job by their places in its directory."""
    return {
        "README.md": _README.substitute(name=name),
        ".gitignore": _IGNORED,
        "client.py": _CLIENT,
        "study.toml": first_study("nvflare", clients=4, wanted=4),
        "job.py": _JOB.substitute(name=name),
    }
