"""FLoRA (Zhou et al., 2023): loss surfaces, the config they recommend, its section of the report."""
