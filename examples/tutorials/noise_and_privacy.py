# %% [markdown]
# # Tuning under noise and privacy
# A score that comes from a few clients is noisy, and a private score is noisier. What does that do to a
# search? A *table* of recorded learning curves answers in seconds: methods are replayed on it, with any
# kind of noise, and the true score of what they chose is known.

# %%
import numpy as np

import fedhpo as fh
from fedhpo.research.tables.replay import replay

table = fh.load_table("mnist")  # 128 configs, 81 rounds, 100 validation clients; comes with fedhpo
SEEDS = range(20)


def error(method, evaluation):
    """The true error, in percent, of what the method chose: mean and standard error over seeds."""
    found = [100 * replay(table, method, seed=seed, evaluation=evaluation).truth for seed in SEEDS]
    return f"{np.mean(found):6.1f} ± {np.std(found, ddof=1) / len(found) ** 0.5:.1f}"


# %% [markdown]
# ## Few clients
# All 100 validation clients, ten, or one for each score:

# %%
print("clients      random          sha             robust")
for clients in (100, 10, 1):
    asked = fh.Evaluator(clients=clients)
    print(f"{clients:5}  ", *(error(method, asked) for method in ("random", "sha", "robust")), sep="    ")

# %% [markdown]
# Halving acts on many early scores, so it suffers from noise that random search hardly notices. `robust`
# scores the same trials again and again, which costs messages but no training.

# %% [markdown]
# ## Private scores
# With `Privacy(epsilon=...)` the whole run is differentially private in the scores of any one client. Each
# score that is released takes noise; the more scores a method needs, the noisier each is.

# %%
print("epsilon      random          sha             random, permute-and-flip")
for epsilon in (100.0, 10.0, 1.0):
    values = fh.Evaluator(clients=10, privacy=fh.Privacy(epsilon))
    choice = fh.Evaluator(clients=100, privacy=fh.Privacy(epsilon, mechanism="permute-and-flip"))
    row = (error("random", values), error("sha", values), error("random", choice))
    print(f"{epsilon:6}", *row, sep="    ")

# %% [markdown]
# Random search with `permute-and-flip` releases only which trial was best, not how good each was: that
# takes far less noise. `method = "auto"`, the default, goes by the same reasoning.

# %% [markdown]
# ## What is spent
# A run keeps account. Here is a private run on simulated clients; noise drawn from a seed protects nobody,
# so real clients need `release="exact"`.

# %%
federation = fh.simulate(
    "mlp", fh.load("digits", clients=20), server="fedavg", weighting="uniform", workers=0
)
space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
private = fh.Evaluator(clients=20, privacy=fh.Privacy(5.0))
result = fh.tune(federation, space, "random", rounds=4, total=24, cohort=5, evaluation=private)
print(result)
print(result.facts["privacy"])

# %% [markdown]
# Read on: [noise and privacy](../../docs/evaluation.md), [advice for your own study](../../docs/advise.md),
# [robust halving](../../docs/methods/robust.md).
