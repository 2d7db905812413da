"""A server with a strategy of its own, which halves the learning rate in round 2."""

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvgM

app = ServerApp()


class Halving(FedAvgM):
    def configure_train(self, server_round, arrays, config, grid):
        if server_round == 2:
            config["lr"] = config["lr"] * 0.5
        return super().configure_train(server_round, arrays, config, grid)


@app.main()
def main(grid: Grid, context: Context) -> None:
    width = context.run_config["width"]
    w = np.random.normal(size=width)  # noqa: NPY002
    first = ArrayRecord({"w": Array(w), "steps": Array(np.zeros(1, np.int64))})
    strategy = Halving(fraction_train=0.5, fraction_evaluate=0.5)
    strategy.start(
        grid=grid,
        initial_arrays=first,
        train_config=ConfigRecord({"lr": context.run_config["learning-rate"]}),
        num_rounds=context.run_config["num-server-rounds"],
    )
    raise RuntimeError("a strategy must not be started while its app is tuned")
