"""Build the documentation site: `make docs`, or `python docs/_site/build.py`.

Pages are copied to build/docs with their links turned to where things are on the site; notebooks are
executed, the reference is made from the code, mkdocs runs in its strict mode, and every link is checked.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from pathlib import Path

import check
import linking
import notebooks
import reference

import examples
import pages

ROOT, HERE = pages.ROOT, Path(__file__).parent
BUILD = ROOT / "build"
STAGE, SITE, WORK, KEPT = BUILD / "docs", BUILD / "site", BUILD / "docs-work", BUILD / "docs-kept"


def stage() -> None:
    """Copy every page to where mkdocs reads it."""
    raw: dict[Path, Path] = {}

    def found(path: Path) -> Path:
        """Where a file that a page links is on the site; one that is no page is copied as it is."""
        if path.is_dir() and (path / "README.md").exists():
            path = path / "README.md"
        if not path.is_relative_to(ROOT) or not path.exists():
            raise SystemExit(f"a page links {path}, which does not exist")
        if (place := pages.shown_as(path)) is None:
            place = raw.setdefault(path, Path("files") / path.relative_to(ROOT))
        return place

    for source, place in pages.sources().items():
        target = STAGE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = source.read_text(encoding="utf-8")
            target.write_text(linking.staged(text, place, source, found), encoding="utf-8")
        else:
            shutil.copy(source, target)
    for source, place in raw.items():
        (STAGE / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, STAGE / place)
    shutil.copytree(HERE / "assets", STAGE / "assets")
    shutil.copy(ROOT / "src/fedhpo/pages/vendor/plotly-cartesian.min.js", STAGE / "assets")


def generate() -> None:
    """The pages that are made from the code."""
    (STAGE / "reference").mkdir()
    for name, text in reference.api(pages.DOCS).items():
        (STAGE / "reference" / name).write_text(text, encoding="utf-8")
    (STAGE / "commands.md").write_text(reference.commands(), encoding="utf-8")


def run_notebooks(again: bool) -> int:
    """Execute the notebooks and write them as pages; without `again`, those of the last build stay."""
    count = 0
    for folder, place in pages.NOTEBOOKS.items():
        for path in sorted((ROOT / folder).glob("*.ipynb")):
            name = f"{place}/{path.stem}.md"
            kept = KEPT / name
            if again or not kept.exists():
                notebook, seconds = notebooks.executed(path, WORK, ROOT)
                print(f"  {name}: {seconds:.1f} s", flush=True)
                kept.parent.mkdir(parents=True, exist_ok=True)
                script = path.relative_to(ROOT).with_suffix(".py").as_posix()
                text = notebooks.markdown(notebook, f"python {script}")
                kept.write_text(text, encoding="utf-8")
            target = STAGE / name
            target.parent.mkdir(parents=True, exist_ok=True)
            text = kept.read_text(encoding="utf-8")
            target.write_text(linking.staged(text, Path(name), path, _on_site), encoding="utf-8")
            count += 1
    return count


def _on_site(path: Path) -> Path:
    place = pages.shown_as(path) if path.exists() else None
    if place is None:
        raise SystemExit(f"a notebook links {path}, which is not a page")
    return place


def build() -> None:
    """Run mkdocs; a warning is an error."""
    from mkdocs.commands.build import build as make
    from mkdocs.config import load_config

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    names = {path.relative_to(STAGE).as_posix() for path in STAGE.rglob("*.md")}
    config = load_config(
        str(HERE / "mkdocs.yml"),
        docs_dir=str(STAGE),
        site_dir=str(SITE),
        nav=pages.navigation(names),
        strict=True,
    )
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(ROOT / "src")]
    config.plugins.on_startup(command="build", dirty=False)
    make(config)
    config.plugins.on_shutdown()


def main() -> int:
    """Build, check, and say what there is."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--keep", action="store_true", help="run no examples: take the notebooks' outputs of the last build"
    )
    given = options.parse_args()
    begun = time.perf_counter()
    for folder in (STAGE, SITE, WORK):
        shutil.rmtree(folder, ignore_errors=True)
    stage()
    generate()
    blocks = 0 if given.keep else examples.run(pages.DOCS, WORK / "pages")
    executed = run_notebooks(not given.keep)
    build()
    wrong, counts = check.problems(SITE)
    for line in wrong:
        print(line, file=sys.stderr)
    print(
        f"{counts['pages']} pages, {executed} notebooks and {blocks} examples of pages executed, "
        f"{counts['links']} links and {counts['loads']} loads checked, {len(wrong)} dead or outside; "
        f"{time.perf_counter() - begun:.0f} s: {(SITE / 'index.html').relative_to(ROOT)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
