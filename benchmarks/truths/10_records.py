"""A refusal to resume names a way that exists: a commit of the clone, not a package index."""

import sqlite3
import sys
import tempfile
from pathlib import Path

import fedhpo as fh


class Changed(fh.RandomSearch):
    """Random search whose calls changed, as a later version would have it."""

    name = "random"
    number = 99


def main() -> int:
    told = [refusal_of_an_older_format(), refusal_of_another_number()]
    print(f"refusals: {' | '.join(told)}")
    wrong = any("pip install fedhpo==" in text for text in told) or "git checkout" not in told[0]
    return 1 if wrong else 0


def refusal_of_an_older_format() -> str:
    """What `load_run` says of a record as 0.1.0 wrote it."""
    with tempfile.TemporaryDirectory() as folder:
        with sqlite3.connect(Path(folder) / "record.sqlite") as record:
            record.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
            for table in ("events", "checkpoints", "stops", "sessions"):
                record.execute(f"CREATE TABLE {table} (number INTEGER)")
            facts = [("format", "1"), ("study", "{}"), ("versions", '{"fedhpo": "0.1.0"}')]
            record.executemany("INSERT INTO meta VALUES (?, ?)", facts)
        record.close()
        return refusal(lambda: fh.load_run(folder))


def refusal_of_another_number() -> str:
    """What `tune` says of a run whose method has another number now."""
    with tempfile.TemporaryDirectory() as folder:
        federation = fh.simulate("linear", fh.load("synthetic", clients=6, seed=0), workers=0)
        space = fh.Space(client={"lr": fh.Float(0.01, 1.0, log=True)})
        options = {"rounds": 1, "total": 2, "cohort": 2, "run": f"{folder}/run"}
        fh.tune(federation, space, fh.RandomSearch(trials=2), **options)
        return refusal(lambda: fh.tune(federation, space, Changed(trials=2), **options))


def refusal(call) -> str:
    try:
        call()
    except fh.FedhpoError as error:
        return str(error)
    return "not refused"


if __name__ == "__main__":
    sys.exit(main())
