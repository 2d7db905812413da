# %% [markdown]
# # Over Flower
# A `ServerApp` and a `ClientApp` as Flower knows them; two lines are fedhpo's. Here they run in one process.
# In a deployment the same two apps run under `flwr run`, with TLS and node authentication.

# %%
from pathlib import Path

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from sklearn.datasets import load_digits

import fedhpo as fh
import fedhpo.flower

study = fh.Study.from_dict(
    {
        "data": {"name": "digits", "clients": 6},
        "model": {"name": "mlp"},
        "space": {"client": {"lr": {"low": 0.01, "high": 1.0, "log": True, "default": 0.1}}},
        "method": {"name": "random"},
        "budget": {"rounds": 5, "total": 20, "cohort": 4},
    }
)


# %% [markdown]
# A client reads its own rows, from wherever its node keeps them.


# %%
def rows(context):
    images, labels = load_digits(return_X_y=True)
    mine = slice(context.node_config["partition-id"], None, 6)
    return fh.from_clients([(images[mine].astype("float32") / 16, labels[mine])], classes=10)


client_app = fedhpo.flower.client(ClientApp(), study=study, data=rows)
server_app = ServerApp()


@server_app.main()
def main(grid, context):
    result = fedhpo.flower.tune(grid, context, study)
    print(result)
    print(result.export("flower"))


# %%
config = {"run-dir": str(Path("runs/flower").absolute())}
fedhpo.flower.run_in_process(server_app, client_app, nodes=6, run_config=config)
