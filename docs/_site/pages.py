"""Which files of the repository are pages of the site, in which order."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

#: Files outside docs/ that are pages: where they lie, and as what they are shown.
OUTSIDE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SKILL.md": "skill.md",
}

#: Scripts that become notebooks, in the order of the site.
NOTEBOOKS = {
    "examples/users": "start",
    "examples/tutorials": "tutorials",
}
START = ["newcomer", "pytorch_researcher", "flower_engineer", "data_scientist"]
TUTORIALS = [
    "first_study",
    "while_training",
    "noise_and_privacy",
    "flower_clients",
    "hospital_tables",
    "fine_tuning",
    "a_method",
]

#: Sections of the site, and the pages of each. A page that is named here but not there is left out; one that
#: is there but not named here is added to the section of its directory.
SECTIONS: dict[str, list[str]] = {
    "Start": [
        "README.md",
        "start.md",
        *(f"start/{name}.md" for name in START),
        "glossary.md",
        "from-optuna.md",
        "scikit-learn.md",
        "huggingface.md",
        "words.md",
        "alternatives.md",
    ],
    "Tutorials": [f"tutorials/{name}.md" for name in TUTORIALS],
    "User guide": [
        "concepts.md",
        "python.md",
        "gallery.md",
        "data.md",
        "columns.md",
        "metrics.md",
        "objectives.md",
        "evaluation.md",
        "advise.md",
        "robust.md",
        "availability.md",
        "flower.md",
        "flower-apps.md",
        "finetuning.md",
        "flowertune.md",
        "nvflare.md",
        "ray.md",
        "ui.md",
        "trackers.md",
        "compare.md",
        "verify.md",
        "agents.md",
        "agents-transcript.md",
        "skill.md",
        "bench.md",
        "tables.md",
        "surfaces.md",
        "benchmarks.md",
        "your-own.md",
        "extending.md",
        "troubleshooting.md",
    ],
    "Methods": [
        "methods/README.md",
        "methods/auto.md",
        "methods/random.md",
        "methods/model-based.md",
        "methods/halving.md",
        "methods/hyperband.md",
        "methods/robust.md",
        "methods/fedex.md",
        "methods/fedpop.md",
        "methods/fedtune.md",
        "methods/flora.md",
        "methods/fts.md",
        "methods/fedhyper.md",
        "methods/hpn.md",
    ],
    "Papers reproduced": [
        "reproductions/README.md",
        "reproductions/noisy-eval.md",
        "reproductions/fedex-critique.md",
        "reproductions/fedex-critique-cnn.md",
        "reproductions/fedex-femnist.md",
        "reproductions/fedex-femnist-cnn.md",
        "reproductions/fedpop.md",
        "reproductions/fedpop-deep.md",
        "reproductions/fedpop-cnn.md",
        "reproductions/flora.md",
        "reproductions/fedtune.md",
    ],
    "Reference": [
        "study-file.md",
        "commands.md",
        "reference/README.md",
        "errors.md",
        "bad-inputs.md",
        "stability.md",
    ],
    "Project": ["changelog.md", "releasing.md", "contributing.md", "architecture.md", "decisions/README.md"],
}

#: Which section takes pages of a directory that are not named above.
HOMES = {
    "": "User guide",
    "start": "Start",
    "tutorials": "Tutorials",
    "methods": "Methods",
    "reproductions": "Papers reproduced",
    "reference": "Reference",
    "decisions": "Project",
}


def shown_as(path: Path) -> Path | None:
    """Where a file of the repository is on the site, or None if it is not a page or picture of it."""
    name = path.relative_to(ROOT).as_posix()
    if name in OUTSIDE:
        return Path(OUTSIDE[name])
    for folder, place in NOTEBOOKS.items():
        if path.suffix == ".ipynb" and path.parent == ROOT / folder:
            return Path(place) / f"{path.stem}.md"
    if path.suffix == ".html" and path.is_relative_to(DOCS) and path.with_suffix(".md").exists():
        # The page of the same name is made from Markdown.
        return path.relative_to(DOCS).with_name("figures") / path.name
    if path.is_relative_to(DOCS) and not path.is_relative_to(DOCS / "_site"):
        return path.relative_to(DOCS) if path.suffix in {".md", ".png", ".html", ".svg"} else None
    return None


def sources() -> dict[Path, Path]:
    """Every file of the repository that is shown, and where: Markdown, pictures and kept pages."""
    files = [ROOT / name for name in OUTSIDE if (ROOT / name).exists()]
    files += sorted(path for path in DOCS.rglob("*") if path.is_file())
    found = {path: shown_as(path) for path in files}
    return {path: place for path, place in found.items() if place is not None}


def navigation(pages: set[str]) -> list[dict[str, list[str]]]:
    """The navigation over the pages that there are, each exactly once."""
    sections = {title: [page for page in named if page in pages] for title, named in SECTIONS.items()}
    listed = {page for named in sections.values() for page in named}
    for page in sorted(pages - listed):
        folder = page.partition("/")[0] if "/" in page else ""
        sections[HOMES[folder]].append(page)
    return [{title: named} for title, named in sections.items() if named]
