"""Scripts that are looked at by type checkers, and never run."""

collect_ignore = ["user_script.py", "wrong_script.py"]
