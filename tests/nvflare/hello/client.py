"""A script in the style of NVFlare's hello examples: it knows nothing of fedhpo, and its lr is a literal."""

import argparse

import nvflare.client as flare
import torch
from hello_model import Network
from nvflare.client.tracking import SummaryWriter
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def rows_of(site):
    """Every fourth row belongs to a site; a quarter of those is for validation."""
    digits = load_digits()
    own = slice(int(site.rpartition("-")[2]) - 1, None, 4)
    x = torch.tensor(digits.data[own] / 16, dtype=torch.float32)
    y = torch.tensor(digits.target[own])
    cut = len(x) // 4
    return TensorDataset(x[cut:], y[cut:]), TensorDataset(x[:cut], y[:cut])


def accuracy_of(model, loader):
    with torch.no_grad():
        right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return 100 * right // len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch_size", type=int, default=32)
    args = parser.parse_args()
    model, loss = Network(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)

    flare.init()
    site = flare.system_info()["site_name"]
    train, validation = rows_of(site)
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True)
    validation_loader = DataLoader(validation, batch_size=128)
    writer = SummaryWriter()

    while flare.is_running():
        received = flare.receive()
        model.load_state_dict(received.params)
        accuracy = accuracy_of(model, validation_loader)
        if flare.is_evaluate():
            flare.send(flare.FLModel(metrics={"accuracy": accuracy}))
            continue
        steps = 0
        for _ in range(args.epochs):
            for x, y in train_loader:
                optimizer.zero_grad()
                cost = loss(model(x), y)
                cost.backward()
                optimizer.step()
                steps += 1
        writer.add_scalar("loss", cost.item(), received.current_round)
        params = {name: value.detach().cpu() for name, value in model.state_dict().items()}
        meta = {"NUM_STEPS_CURRENT_ROUND": steps}
        flare.send(flare.FLModel(params=params, metrics={"accuracy": accuracy}, meta=meta))


if __name__ == "__main__":
    main()
