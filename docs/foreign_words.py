"""Words and commands of other tools, and what each is answered with.

`docs/_make.py` writes the page from what they print; `tests/test_foreign_words.py` runs the same cases.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from bad_inputs import Case


def _key(tool: str, ours: str, section: str, text: str) -> Case:
    return Case(tool, ours, {section: text})


def _command(tool: str, ours: str, *words: str) -> Case:
    return Case(tool, ours, command=words)


def _python(ours: str, code: str) -> Case:
    return Case("Python", ours, python=code)


_METHOD = 'name = "random"\ntrials = 2'
_DIGITS = 'name = "digits"\nclients = 10'

CASES = [
    _command("a slip", "'tune'", "tun", "study.toml"),
    _command("a slip", "'--version'", "--verion"),
    _command("a slip", "'--workers'", "tune", "study.toml", "--worker", "2"),
    _command("Optuna", "'tune'", "optimize", "study.toml"),
    _command("Optuna", "'new'", "create-study"),
    _command("Optuna", "method.trials in the study file", "tune", "study.toml", "--n-trials", "10"),
    _command("Optuna", "'--runs'", "tune", "study.toml", "--storage", "sqlite:///a.db"),
    _command("Optuna", "'--name'", "tune", "study.toml", "--study-name", "a"),
    _command("Optuna", "'ui'", "dashboard"),
    _command("Ray Tune", "'resume'", "continue", "runs/a"),
    _command("scikit-learn", "'tune'", "fit", "study.toml"),
    _command("scikit-learn", "'--workers'", "tune", "study.toml", "--n-jobs", "2"),
    _command("scikit-learn", "'--seed'", "tune", "study.toml", "--random-state", "2"),
    _command("Flower", "'tune'", "run", "."),
    _command("Flower", "budget.rounds in the study file", "tune", "study.toml", "--rounds", "3"),
    _command("Keras", "'tune'", "train", "study.toml"),
    _command("Keras", "'--device'", "tune", "study.toml", "--gpu"),
    _command("other tools", "'check'", "validate", "study.toml"),
    _command("other tools", "fedhpo check STUDY", "tune", "study.toml", "--dry-run"),
    _command("other tools", "'runs'", "list"),
    _command("other tools", "'--timeout'", "tune", "study.toml", "--time-limit", "60"),
    _key("Optuna", "method.trials", "budget", "rounds = 2\nn_trials = 4"),
    _key("Optuna", "method.trials", "budget", "rounds = 2\ntrials = 4"),
    _key("Optuna", "'trials'", "method", 'name = "random"\nn_trials = 3'),
    _key("Optuna", "rate", "method", 'name = "sha"\nreduction_factor = 3'),
    _key("Optuna", "[method]", "sampler", 'name = "tpe"'),
    _key("Optuna", "'sha'", "pruner", 'name = "median"'),
    _key("Optuna", "'tpe'", "method", 'name = "optuna"'),
    _key(
        "Optuna", "{ choices = [...] }", "space.client", 'lr = { type = "categorical", choices = [0.1, 1.0] }'
    ),
    _key("Optuna", "log = true", "space.client", 'lr = { type = "loguniform", low = 0.1, high = 1.0 }'),
    _key("Optuna", "{ values = [...] }", "space.client", "lr = { low = 0.1, high = 1.0, step = 0.1 }"),
    _key("Ray Tune", "method.trials", "budget", "rounds = 2\nnum_samples = 4"),
    _key("Ray Tune", "budget.timeout", "budget", "rounds = 2\ntime_budget_s = 4"),
    _key("Ray Tune", "'sha'", "method", 'name = "asha"'),
    _key("Ray Tune", "'fedpop'", "method", 'name = "pbt"'),
    _key("Ray Tune", "budget.rounds", "method", 'name = "sha"\ngrace_period = 3'),
    _key("Ray Tune", "objective.direction", "objective", 'metric = "accuracy"\nmode = "max"'),
    _key("Ray Tune", "[space.client]", "param_space", "lr = 0.1"),
    _key("Hyperband", "rate", "method", 'name = "sha"\neta = 3'),
    _key("scikit-learn", "[space.client]", "param_grid", "lr = 0.1"),
    _key("scikit-learn", "objective.metric", "objective", 'scoring = "accuracy"'),
    _key("scikit-learn", "'auroc'", "objective", 'metric = "auc"'),
    _key("scikit-learn", "RandomForestClassifier", "model", 'name = "random_forest"'),
    _key("scikit-learn", "'mlp'", "model", 'name = "MLPClassifier"'),
    _key("scikit-learn", "split", "data", f"{_DIGITS}\ntest_size = 0.1"),
    Case("scikit-learn", "seed", top="random_state = 3"),
    Case("scikit-learn", "--workers", top="n_jobs = 3"),
    _key("skopt", "'gp' or 'tpe'", "method", 'name = "bayesian"'),
    _key("Flower", "'rounds'", "budget", "rounds = 2\nnum-server-rounds = 3"),
    _key("Flower", "budget.cohort", "budget", "rounds = 2\nfraction_train = 0.5"),
    _key("Flower", "evaluation.clients", "evaluation", "fraction_evaluate = 0.5"),
    _key("Flower", "'clients'", "data", 'name = "digits"\nnum_clients = 10'),
    _key("Flower", "'epochs'", "space.client", "local_epochs = { low = 1, high = 3 }"),
    _key("Flower", "prox", "space.client", "proximal_mu = { low = 0.1, high = 1.0 }"),
    _key("Flower", "dirichlet", "data", f"{_DIGITS}\nnon_iid = true"),
    _key("Flower", "{ kind = 'dirichlet'", "data", f'{_DIGITS}\npartition = "dirichlet"'),
    _key("Keras", "'accuracy'", "objective", 'metric = "acc"'),
    _key("Keras", "'loss'", "objective", 'metric = "val_loss"'),
    _key("Keras", "objective.metric", "objective", 'monitor = "val_loss"'),
    _key("PyTorch", "write lr", "space.client", "learning_rate = { low = 0.1, high = 1.0 }"),
    _key("PyTorch", "[8, 16]", "space.client", 'batch_size = { choices = "8,16" }'),
    _key("Opacus", "[evaluation.privacy]", "privacy", "epsilon = 1.0"),
    _python("fh.Choice", 'fh.Categorical(["a", "b"])'),
    _python("fh.Float(low, high, log=True)", "fh.LogUniform(0.1, 1)"),
    _python("fh.tune", "fh.create_study()"),
    _python("fh.tune", "fh.minimize(None)"),
    _python("fh.RandomSearch", "fh.Random(trials=3)"),
]


def answer(case: Case, folder: Path) -> tuple[int, str]:
    """Exit code and the last line printed, without the list of all that is known.

    In Python a name that does not exist is an `AttributeError`.
    """
    try:
        code, printed = case.run(folder)
    except AttributeError as error:
        return 2, f"AttributeError: {error}"
    return code, printed.splitlines()[-1].partition("; known: ")[0].replace("|", "\\|")


def page() -> str:
    """The page, from what the cases print."""
    lines = [
        "# Words of other tools, and ours",
        "",
        "What people type who come from Optuna, Ray Tune, scikit-learn, Flower, Keras or PyTorch, and what",
        "fedhpo answers.",
        "This page is made by `python docs/_make.py` from real runs; the tests run the same cases.",
        "",
        "| from | you typed | the answer |",
        "| --- | --- | --- |",
    ]
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            _, printed = answer(case, Path(folder))
        lines.append(f"| {case.mistake} | {case.shown} | `{printed}` |")
    return "\n".join(lines) + "\n"
