"""The study of a new app: what `fedhpo new` writes, whatever brings the messages."""

from __future__ import annotations

from string import Template

_STUDY = Template("""\
[data]
name = "digits"            # needs no download
clients = $clients
partition = { kind = "dirichlet", alpha = 0.5 }
[model]
name = "mlp"
[space.client]
lr = { low = 1e-3, high = 1.0, log = true, default = 0.1 }
momentum = { low = 0.0, high = 0.9, default = 0.0 }
[space.server]
lr = { low = 0.5, high = 2.0, log = true, default = 1.0 }
[budget]                   # what tunes is chosen by rule, since there is no [method]
rounds = 10                # of one final training
total = 20                 # over all trials
cohort = 2                 # clients in a round
[$runtime]
clients = $wanted                # the run begins when so many are there
deadline = 300.0           # seconds that a client has for a task
most_rows = 10000          # the most rows that a client may claim
""")


def first_study(runtime: str, clients: int, wanted: int) -> str:
    """A study file: its data is dealt to `clients`, of which `wanted` must be there."""
    return _STUDY.substitute(runtime=runtime, clients=clients, wanted=wanted)
