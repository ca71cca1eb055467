"""Groups of runs that differ in the seed: when their best is in doubt, and what they differ in."""

import json

from andiron.run_folder import RunFolder
from andiron.wings.runs.seed_groups import code_of, compared, doubt, unlike
from seed_runs import METRIC, runs


def test_the_best_is_in_doubt_if_another_group_has_values_as_good():
    good, close, bad = [0.9, 0.91, 0.92], [0.89, 0.92, 0.9], [0.1, 0.12, 0.11]

    def line(*groups):
        every = [run for lr, group in enumerate(groups) for run in runs(*group, lr=lr)]
        return doubt(compared(every, METRIC, "highest"), METRIC)

    assert line(good, bad) is None and line(good) is None and line([0.9]) is None
    assert "group 2 has values as good as the first has" in line(bad, close, good)
    assert "seeds RUN --add 2` trains more" in line([0.9], [0.8], [0.7])  # also of a search
    assert line([0.93], good, [0.8]) is None


def test_folds_are_one_row_with_their_mean():
    every = [run for fold in range(3) for run in runs(0.9 + fold / 50, **{"data.fold": fold})]
    every += runs(0.5, 0.6, **{"data.fold": 0, "lr": 1})
    first, second = compared(every, METRIC, "highest", every)
    assert (len(first.runs), str(first.metrics[METRIC])) == (3, "0.9200 ± 0.0200")
    assert len(second.runs) == 2 and "data.fold" not in first.options
    close = runs(0.91, 0.92, **{"data.fold": 0, "lr": 1}) + runs(0.9, **{"data.fold": 1, "lr": 1})
    said = doubt(compared(every[:3] + close, METRIC, "highest"), METRIC)
    assert "within the noise" in said and "differ" not in said  # which compares seeds


def test_runs_of_different_code_are_named(tmp_path):
    every = []
    for number, run in enumerate(runs(0.9, 0.91, lr=1) + runs(0.1, 0.12, lr=2)):
        folder = RunFolder(tmp_path / str(number))
        folder.path.mkdir()
        git = {"root": f"/{number}", "revision": "b" if number == 3 else "a"}
        folder.provenance.write_text(json.dumps({"git": git, "projects": {}}))
        run.folder = folder
        every.append(run)

    code = [code_of(run.provenance) for run in every]
    assert unlike("code", code[:3]) == []
    said = "the runs have different code: it may be what a difference shows"
    assert unlike("code", code) == [said]
    assert said in doubt(compared(every, METRIC, "highest"), METRIC)
