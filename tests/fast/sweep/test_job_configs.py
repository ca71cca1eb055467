"""The configurations that a sweep composes equal those that each job would compose."""

from pathlib import Path

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from andiron import errors
from andiron.shell.config import composition
from andiron.wings.sweep.job_configs import JobConfigs

CONF = Path(__file__).resolve().parents[3] / "conf"


def test_jobs_are_composed_as_alone_and_invalid_ones_say_why():
    composition.register_resolvers()
    jobs = [("seed=1", "model=lenet"), ("lr=-1",), ("model.nonsense=1",), ("seed=2",)]
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        sweep = loader.load_configuration("train", ["jobs=2"], RunMode.MULTIRUN)
        configs = JobConfigs(loader, sweep)
        configs.compose_ahead(jobs[:3])
        found = [configs.of(each) for each in jobs]
        alone = [composition.composed(CONF, [*each]) for each in (jobs[0], jobs[3])]

    assert [found[0].checked, found[3].checked] == alone
    assert found[0].config.hydra.overrides.task == [*jobs[0]]
    assert [each.checked for each in found[1:3]] == [None, None]
    assert found[1].problems[0].startswith("lr=-1: ") and found[1].config is not None
    assert found[2].problems[0].endswith(" +model.nonsense=1") and found[2].config is None


def test_shared_problems_occur_in_the_first_and_the_last_job():
    composition.register_resolvers()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        sweep = loader.load_configuration("train", [], RunMode.MULTIRUN)
        configs = JobConfigs(loader, sweep)

        (shared,) = configs.shared_problems([["lr=1", "name=a/b"], ["lr=-1", "name=a/b"]])
        assert shared.startswith("name=a/b: ")
        assert configs.shared_problems([["lr=-1"], ["lr=1"]]) == []
        assert configs.shared_problems([["lr=-1"], ["lr=-2"]]) == []


def test_a_job_shows_how_to_quote_a_text_and_the_next_job_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained, data = [], ["data=csv_regression", "data.path=t.csv", "data.target=2020,a"]
    sweep = ["-m", *data, "hydra/launcher=basic", "hydra.sweep.dir=sweep"]
    with pytest.raises(errors.SweepError) as refused:
        composition.run(lambda config, *_: trained.append(config.data), CONF, sweep)
    quoted = """a text is quoted for Hydra too: 'data.target="2020"'"""
    assert str(refused.value).endswith(quoted)
    assert [data["target"] for data in trained] == ["a"]
