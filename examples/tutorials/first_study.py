# %% [markdown]
# # A first study
# A study is one TOML file: data, model, what may vary, and how much may be spent. It is all that `fedhpo
# tune` needs, and all that somebody else needs to repeat your run.

# %%
from pathlib import Path

import fedhpo as fh
from fedhpo.cli import main

STUDY = """
[data]
name = "digits"
clients = 30
partition = { kind = "dirichlet", alpha = 0.5 }

[model]
name = "mlp"

[space.client]
lr = { low = 1e-3, high = 1.0, log = true, default = 0.03 }
momentum = { low = 0.0, high = 0.9, default = 0.0 }

[method]
name = "hyperband"

[budget]
rounds = 12
total = 120
cohort = 5
baseline = true
"""
Path("first.toml").write_text(STUDY)

# %% [markdown]
# In a terminal the next line is `fedhpo tune first.toml`. `rounds` is the length of one full training,
# `total` the number of rounds over all trials. `default` is what you would have used without tuning: trial
# 0, which every gain is measured against.

# %%
main(["tune", "first.toml", "--quiet", "--workers", "0"])

# %% [markdown]
# ## What was found
# The run is a directory. It can be read without the data, on another machine too.

# %%
result = fh.load_run("runs/first")
print(result.verdict)
result.trials

# %% [markdown]
# Which trials trained for how long, and how they scored: Hyperband begins many and drops the worse ones
# early.

# %%
result.plot.curves()

# %%
result.plot.slice()

# %% [markdown]
# ## Spend more
# Hyperband can go on with a larger total: nothing is trained twice. (In a terminal: `fedhpo resume
# runs/first --total 180`.)

# %%
main(["resume", "runs/first", "--total", "180", "--quiet", "--workers", "0"])

# %% [markdown]
# ## A mistake
# A wrong key is answered with what was found, what is allowed and what you may have meant.

# %%
try:
    Path("wrong.toml").write_text(STUDY.replace("momentum", "momentun"))
    fh.Study.load("wrong.toml")
except fh.InputError as error:
    print(error)

# %% [markdown]
# Read on: [all keys of a study](../../docs/study-file.md), [which method](../../docs/methods/README.md),
# [the page of runs](../../docs/ui.md).
