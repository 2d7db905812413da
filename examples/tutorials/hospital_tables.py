# %% [markdown]
# # Hospital tables with FLoRA
# Three hospitals, a CSV file each, and a single federated training that anybody will pay for. FLoRA lets
# every hospital tune on its own rows first. Each sends pairs of a config and its loss, no rows; the server
# fits a *loss surface* to them, takes the config at its minimum, and trains once.

# %%
from pathlib import Path

import fedhpo as fh

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
USERS = HERE.parent / "users"
data = fh.from_csv({name: USERS / f"{name}.csv" for name in ("north", "south", "west")}, label="outcome")
data

# %%
federation = fh.LearnerFederation(data, "hgb", workers=0)
space = fh.Space(
    client={
        "max_iter": fh.Int(5, 80, log=True),
        "learning_rate": fh.Float(0.01, 1.0, log=True),
        "min_samples_leaf": fh.Int(1, 25),
    }
)
method = fh.FLoRA(configs=8, folds=3, surface="aplm")
result = fh.tune(federation, space, method, rounds=1, total=1, cohort=3, baseline=True, run="runs/flora")
result

# %% [markdown]
# ## Do the hospitals agree?
# The report has the losses that each party found and the surface over them. In numbers:

# %%
print(result.verdict)
flora = result.facts["flora"]
for party in flora["parties"]:
    print(
        "party", party["party"], "tried", party["pairs"], "configs, best loss", round(party["best_loss"], 3)
    )
print("expected loss of the chosen config:", round(flora["predicted_loss"], 3))
print("surface to prefer:", flora["diagnostics"]["recommended"], "because", flora["diagnostics"]["why"])

# %% [markdown]
# ## A new patient

# %%
print(result.predict({"age": 71, "smokes": "daily", "pressure": None}))

# %% [markdown]
# ## When losses are secret too
# A party can add noise to the losses that it sends, and keep account of what it has given away:
# `fh.FLoRA(privacy=fh.LocalPrivacy(epsilon=1.0))`. With files this small the noise would hide everything.

# %% [markdown]
# Read on: [FLoRA](../../docs/methods/flora.md), [loss surfaces](../../docs/surfaces.md), [tables of your
# own](../../docs/columns.md).
