# %% [markdown]
# # FedEx and FedPop: tuning while a model trains
# Most methods train a model for every config. FedEx and FedPop change the hyperparameters of clients while
# one model, or a few, train. So they try many configs for the price of a few trainings.

# %%
import fedhpo as fh

data = fh.load("digits", clients=30, partition={"kind": "dirichlet", "alpha": 0.5})
federation = fh.simulate("mlp", data, workers=0)
space = fh.Space(
    client={
        "lr": fh.Float(1e-3, 1.0, log=True, default=0.01),
        "momentum": fh.Float(0.0, 0.9, default=0.0),
    },
    server={"lr": fh.Float(0.3, 3.0, log=True, default=1.0)},
)
budget = {"rounds": 24, "total": 96, "cohort": 8}

# %% [markdown]
# ## FedEx
# A trial has several client configs, the *arms*, and a weight for each. In every round each client draws an
# arm, trains with it and reports how its own validation loss changed; good arms gain weight.
# `schedule="fixed"` trains four models to the end; the default is halving around it.

# %%
fedex = fh.tune(federation, space, fh.FedEx(schedule="fixed", trials=4, arms=9, eps=0.3), **budget)
fedex

# %% [markdown]
# The weights over the rounds. A flat picture says that the clients' scores could not tell the arms apart.

# %%
fedex.plot.policy()

# %% [markdown]
# ## FedPop
# Four models train side by side. Every few rounds the worst become copies of the best, under
# hyperparameters near theirs; inside each model the members of a cohort try values of their own. Server
# hyperparameters are tuned too.

# %%
fedpop = fh.tune(federation, space, fh.FedPop(population=4, interval=4), **budget)
fedpop

# %%
fedpop.plot.lineage()

# %% [markdown]
# ## Were they worth it?
# The fair comparison is a plain method with the same total. One seed says little: `fedhpo compare` runs
# several and gives intervals.

# %%
random = fh.tune(federation, space, "random", **budget)
for name, result in {"FedEx": fedex, "FedPop": fedpop, "random search": random}.items():
    print(f"{name:14} validation {result.best_score:.3f}  test {result.test['accuracy']:.3f}")

# %% [markdown]
# What more seeds gave, on this and on other data, stands on the pages of
# [FedEx](../../docs/methods/fedex.md) and [FedPop](../../docs/methods/fedpop.md): neither is ahead of
# halving everywhere.
