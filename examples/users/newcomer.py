# %% [markdown]
# # A first look
# Digits, dealt to 30 clients who share no images. Which learning rate, batch size and number of local epochs
# should they train with? All settings of the search but its budget are left to fedhpo.

# %%
import fedhpo as fh

data = fh.load("digits", clients=30, partition={"kind": "dirichlet", "alpha": 0.5})
data

# %%
space = fh.Space(
    client={
        "lr": fh.Float(1e-3, 1.0, log=True),
        "batch_size": fh.Ordinal([8, 16, 32, 64]),
        "epochs": fh.Int(1, 4),
    }
)

# %% [markdown]
# A training has 10 communication rounds, the whole search 100. The run is kept: called again, this goes on.

# %%
with fh.simulate("mlp", data, workers=0) as federation:
    result = fh.tune(federation, space, rounds=10, total=100, cohort=5, run="runs/newcomer", progress=True)
result

# %%
print(result.verdict)
print(result.best_config)

# %% [markdown]
# `runs/newcomer/report.html` has all of it on a page. Figures are plotly's.

# %%
result.plot.history()

# %% [markdown]
# Another day, without the data:

# %%
again = fh.load_run("runs/newcomer")
print(again.best_score, len(again.trials), "trials")
