"""FedTune (2022): client hyperparameters by profile."""
