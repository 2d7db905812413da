"""Local training, and scores, of torch modules on this machine."""
