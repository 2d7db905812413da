"""Write the generated pages: `python docs/_make.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

if __name__ == "__main__":
    import bad_inputs
    import foreign_words
    import study_page

    (HERE / "study-file.md").write_text(study_page.page(), encoding="utf-8")
    results = []
    for case in bad_inputs.CASES:
        with tempfile.TemporaryDirectory() as folder:
            results.append(case.run(Path(folder)))
    (HERE / "bad-inputs.md").write_text(bad_inputs.page(results), encoding="utf-8")
    (HERE / "words.md").write_text(foreign_words.page(), encoding="utf-8")
