"""FLoRA (Zhou et al., 2023)."""
