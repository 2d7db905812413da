# %% [markdown]
# # One CSV file per hospital
# The columns come in another order in every file, one of them is text, values are missing. Nobody joins the
# files: each party keeps its own rows.

# %%
from pathlib import Path

import fedhpo as fh

HERE = Path(__file__).parent if "__file__" in globals() else Path.cwd()
files = {name: HERE / f"{name}.csv" for name in ("north", "south", "west")}
data = fh.from_csv(files, label="outcome")
data

# %% [markdown]
# Any estimator of scikit-learn tunes the same way; this one takes missing values as they are.

# %%
federation = fh.LearnerFederation(data, "hgb", workers=0)
space = fh.Space(
    client={
        "max_iter": fh.Int(10, 80),
        "learning_rate": fh.Float(0.01, 1.0, log=True),
        "max_leaf_nodes": fh.Int(3, 31),
    }
)
result = fh.tune(federation, space, "random", rounds=1, total=8, cohort=3, objective="auroc", metrics=["f1"])
result

# %%
print(result.metrics)
result.trials

# %% [markdown]
# A new patient, with a value missing.

# %%
print(result.predict({"age": 71, "smokes": "daily", "pressure": None}))
