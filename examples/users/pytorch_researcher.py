# %% [markdown]
# # A model and clients of your own in PyTorch
# Any `torch.nn.Module`, any tensors. Here a small network, and hospitals whose patients differ; the width of
# the network is tuned with the rest, for accuracy and for the bytes that clients have to send.

# %%
import torch
from torch import nn

import fedhpo as fh


class Net(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, x):
        return self.layers(x)


# %%
def hospital(number: int):
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(120, 8, generator=generator) + 0.3 * number / 12
    y = (x[:, :3] + 0.5 * x[:, 3:6] * x[:, 6:7]).argmax(dim=1)
    return x, y


federation = fh.simulate(Net, {f"hospital {i}": hospital(i) for i in range(12)}, workers=0)

# %%
space = fh.Space(
    client={"lr": fh.Float(1e-3, 1.0, log=True), "momentum": fh.Float(0.0, 0.9)},
    model={"width": fh.Int(4, 64, log=True)},
)
objectives = ["accuracy", "bytes_up"]
result = fh.tune(federation, space, "gp", rounds=8, total=96, cohort=6, objectives=objectives)
result.pareto

# %%
result.plot.pareto()

# %% [markdown]
# The best model is a `Net` like any other.

# %%
print(result)
torch.save(result.model.state_dict(), "net.pt")
