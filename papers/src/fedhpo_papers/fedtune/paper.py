"""What the FedTune paper reports."""

#: Test accuracy in percent: global tuning, FedTune, hand tuning.
TABLE_1 = {
    "fashion_mnist": {"global": 73.99, "fedtune": 79.73, "hand": 80.03},
    "cifar10": {"global": 68.13, "fedtune": 72.32, "hand": 72.66},
    "femnist": {"global": 74.14, "fedtune": 81.24, "hand": 81.64},
}
#: Best learning rate by index and (batch size, quantity); the first index is printed 035, the text says 0.15.
TABLE_2 = {
    (0.15, 5, 400): 0.021,
    (0.15, 10, 400): 0.04,
    (0.15, 20, 800): 0.041,
    (0.15, 30, 800): 0.061,
    (0.5, 5, 400): 0.032,
    (0.5, 10, 400): 0.065,
    (0.5, 20, 800): 0.071,
    (0.5, 30, 800): 0.105,
    (0.75, 5, 400): 0.042,
    (0.75, 10, 400): 0.086,
    (0.75, 20, 800): 0.081,
    (0.75, 30, 800): 0.125,
}
#: What a model that learned nothing comes to, in percent: one of so many classes.
CHANCE = {"fashion_mnist": 10.0, "cifar10": 10.0, "femnist": 100 / 62, "digits": 10.0}
#: Figure 5: steps until the terminal accuracy on FEMNIST, of 86,400.
STEPS = {"gp": 36_000, "random": 79_000, "grid": 86_400}
