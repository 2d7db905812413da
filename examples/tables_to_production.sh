#!/usr/bin/env bash
# Three messy tables to predictions where neither study nor training files are, for five models.
# bash examples/tables_to_production.sh [DIRECTORY]; takes about a minute.
set -euo pipefail
place=${1:-$(mktemp -d)}
mkdir -p "$place/train" "$place/production"
cd "$place/train"

# What three hospitals have: other orders of columns, dates, free text, gaps, a column that only one of them knows.
python - <<'PY'
import csv, random
random.seed(0)
names = ["patient", "visit_date", "age", "smokes", "note", "outcome"]
for party in ("north", "south", "west"):
    columns = random.sample(names, len(names)) + ["ward"] * (party == "south")
    with open(f"{party}.csv", "w", newline="") as file:
        rows = csv.DictWriter(file, columns, extrasaction="ignore")
        rows.writeheader()
        for number in range(80):
            ill = random.random() < 0.5
            smokes = "often" if random.random() < 0.2 + 0.6 * ill else "never"
            rows.writerow({
                "patient": f"p{number}", "ward": random.choice("AB"), "outcome": "ill" if ill else "well",
                "visit_date": f"2024-{random.randint(1, 12):02d}-{random.randint(1, 28):02d}",
                "age": "" if random.random() < 0.1 else f"{random.gauss(70 if ill else 40, 6):.1f}",
                "smokes": "NA" if random.random() < 0.1 else smokes,
                "note": f"seen at {random.random():.6f}",
            })
PY
printf 'smokes,age\noften,75\nnever,\nnever,30\n' > "$place/production/new.csv"
cat > "$place/pipeline.py" <<'PY'
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

steps = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression())])
PY

for model in hgb svm mlp_sklearn xgboost; do
  fedhpo new csv "${model%_sklearn}" north.csv south.csv west.csv --model "$model"
done

# A Pipeline: the same study with other lines for the model and its space.
cp -r svm pipeline && cp "$place/pipeline.py" pipeline/
sed -i '0,/^name = "svm"/s//name = "pipeline"/' pipeline/study.toml
sed -i -e '/^\[model\]/,/^\[method\]/c\[model]\nname = "estimator"\npath = "pipeline:steps"\n[space.client]\nmodel__C = { low = 0.01, high = 100.0, log = true }\n[method]' pipeline/study.toml

for model in hgb svm mlp xgboost pipeline; do
  (cd "$model" && fedhpo tune study.toml --quiet)
  mv "$model/runs/$model" "$place/production/$model"
done

# The training files and studies are gone; the run's directory is enough.
cd "$place/production" && rm -r "$place/train" "$place/pipeline.py"
for model in hgb svm mlp xgboost pipeline; do
  echo "$model: $(ls "$model" | grep '^model\.' | tr '\n' ' ')"
  fedhpo predict "$model" new.csv
done
