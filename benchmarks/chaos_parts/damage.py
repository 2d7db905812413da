"""Damage: bytes of one file of a run that are not what was written."""

from __future__ import annotations

import random
from pathlib import Path

#: Which files are meant, by how their path in the run begins or ends; the last one is for all others.
CLASSES = {
    "record": ("record.sqlite",),
    "record-wal": ("record.sqlite-wal",),
    "record-shm": ("record.sqlite-shm",),
    "checkpoint": (".safetensors",),
    "result": ("result.json",),
    "history": ("history.csv",),
    "study": ("study.toml", "study.json"),
    "lock": ("lock",),
    "journal": (".jsonl",),
    "report": ("report.html",),
}
#: How often a class is drawn, where it is there.
WEIGHTS = {"record": 4, "record-wal": 4, "checkpoint": 5, "result": 2, "history": 2, "journal": 4}


def class_of(path: Path) -> str:
    """What kind of file it is.

    >>> class_of(Path("runs/run/checkpoints/trial-0-event-9.safetensors"))
    'checkpoint'
    """
    return next((name for name, ends in CLASSES.items() if path.name.endswith(ends)), "other")


def damage(run: Path, rng: random.Random) -> dict[str, str]:
    """Damage one file of the run; what was done to which."""
    files: dict[str, list[Path]] = {}
    for path in sorted(run.rglob("*")):
        if path.is_file() and path.stat().st_size:
            files.setdefault(class_of(path), []).append(path)
    names = sorted(files)
    name = rng.choices(names, [WEIGHTS.get(name, 1) for name in names])[0]
    path = rng.choice(files[name])
    content = bytearray(path.read_bytes())
    how = flip(content, rng)
    path.write_bytes(content)
    return {"file": str(path.relative_to(run)), "class": name, "how": how}


def flip(content: bytearray, rng: random.Random) -> str:
    """Change some bytes, always to others; says what was done.

    >>> content = bytearray(b"abc")
    >>> flip(content, random.Random(0)), content != b"abc"
    ('2 bytes from byte 1', True)
    """
    where = rng.randrange(len(content))
    kind = rng.choices(["bit", "byte", "bytes", "block", "cut"], [8, 4, 2, 1, 1])[0]
    if kind == "bit":
        bit = rng.randrange(8)
        content[where] ^= 1 << bit
        return f"bit {bit} of byte {where}"
    if kind == "byte":
        content[where] ^= rng.randrange(1, 256)
        return f"byte {where}"
    if kind == "cut":
        del content[where:]
        return f"cut at byte {where}"
    length = min(16 if kind == "bytes" else 512, len(content) - where)
    for place in range(where, where + length):
        content[place] = content[place] ^ rng.randrange(1, 256) if kind == "bytes" else content[place] ^ 0xFF
    return f"{length} bytes from byte {where}"
