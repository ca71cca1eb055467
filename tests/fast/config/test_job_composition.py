"""Jobs composed together equal the jobs that Hydra composes one by one."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from andiron.shell.config import composition
from andiron.wings.sweep.job_configs import JobConfigs

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.fixture(scope="module")
def sweep() -> Iterator[SimpleNamespace]:
    composition.register_resolvers()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        config = loader.load_configuration("train", ["jobs=2"], RunMode.MULTIRUN)
        yield SimpleNamespace(loader=loader, config=config)


@pytest.mark.parametrize("jobs", [
    [["seed=1", "lr=0.1"], ["seed=2", "lr=1e-3"]],
    [["lr=0.1", "optimizer=adam"], ["lr=0.2", "optimizer=adam"], ["lr=0.1", "optimizer=sgd"]],
    [["name=a b"], ["name='it\\'s'"], ["name='1'"], ["name=1"], ["name=null"], ["name=true"]],
    [["lr=0.1", "lr=0.2"], ["lr=0.3", "lr=0.1"]],
    [["optimizer.weight_decay=1", "optimizer={weight_decay: 3}"]],
    [["optimizer={weight_decay: 3}", "optimizer.weight_decay=1"]],
    [["model.hidden=[1,2]", "seed=1"], ["model.hidden=[3]", "seed=1"]],
    [["seed=1", "lr=${seed}"], ["seed=2", "lr=0.1"]],
    [["seed=1", "+extra.a=2"], ["seed=2", "+extra.a=2"], ["seed=2", "++extra.a=3"]],
    [["seed=1", "~early_stopping"], ["seed=2", "~early_stopping"]],
    [["hydra.job.name=a", "seed=1"], ["hydra.job.name=b", "seed=2"]],
    [["num_epochs=null", "num_updates=3"], ["num_epochs=3", "num_updates=null"]],
    [["jobs=2", "render=plain", "seed=3"], ["jobs=2", "render=plain", "seed=4"]],
    [["seed=5"], []],
])  # fmt: skip
def test_a_composed_job_equals_hydras_own(sweep, jobs):
    jobs_together = JobConfigs(sweep.loader, sweep.config)
    for overrides in jobs:
        found = jobs_together.composed(overrides)
        alone = sweep.loader.load_sweep_config(sweep.config, overrides)

        assert OmegaConf.to_container(found) == OmegaConf.to_container(alone)
        assert OmegaConf.get_cache(found) == OmegaConf.get_cache(alone)
        for name in ("struct", "readonly"):
            assert found._get_flag(name) == alone._get_flag(name)
            assert found.hydra._get_flag(name) == alone.hydra._get_flag(name)


def test_jobs_that_differ_in_plain_values_are_composed_once(sweep, monkeypatch):
    composed, by_hydra = [], sweep.loader.load_sweep_config
    monkeypatch.setattr(
        sweep.loader,
        "load_sweep_config",
        lambda config, overrides: composed.append(overrides) or by_hydra(config, overrides),
    )
    jobs_together = JobConfigs(sweep.loader, sweep.config)

    for seed in range(4):
        for optimizer in ("adam", "sgd"):
            jobs_together.composed([f"seed={seed}", f"optimizer={optimizer}", f"lr=0.{seed}"])

    assert composed == [["seed=0", "optimizer=adam", "lr=0"], ["seed=0", "optimizer=sgd", "lr=0"]]


def test_a_job_that_cannot_be_composed_is_refused(sweep):
    with pytest.raises(Exception, match="nonsense"):
        JobConfigs(sweep.loader, sweep.config).composed(["seed=1", "model.nonsense=1"])
