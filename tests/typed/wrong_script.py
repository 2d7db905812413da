"""Mistakes that a type checker must find: each line with `# wrong`, and no other."""

import fedhpo as fh

space = fh.Space(client={"lr": fh.Float(1e-3, 1.0, log=True)})
fh.Tuner(fh.schedules.Halving(), fh.TPE())  # wrong
fh.Tuner(fh.schedules.Halving(), policy=fh.FedEx())  # wrong
fh.Asker(space, fh.GP())  # wrong
fh.tune(fh.simulate("mlp", fh.load("digits")), space, fh.samplers.TPE(), rounds=3)  # wrong
print(fh.Tunner)  # wrong
print(fh.load_run("runs/a").gian)  # wrong
