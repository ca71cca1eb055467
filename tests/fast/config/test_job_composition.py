"""Jobs composed without Hydra equal those that it composes."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import OmegaConf

from andiron.shell.config import composition
from andiron.wings.sweep.plain_jobs import plain_job

CONF = Path(__file__).resolve().parents[3] / "conf"


@pytest.fixture(scope="module")
def sweep() -> Iterator[SimpleNamespace]:
    composition.register_resolvers()
    with hydra.initialize_config_dir(str(CONF), version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        config = loader.load_configuration("train", ["jobs=2"], RunMode.MULTIRUN)
        yield SimpleNamespace(loader=loader, config=config)


@pytest.mark.parametrize(("overrides", "is_plain"), [
    (["seed=1", "lr=0.1"], True),
    (["seed=1", "lr=1e-3", "batch_size=7"], True),
    (["name='it\\'s'"], True),
    (["name='1'"], True),
    (["name=true"], True),
    (["optimizer.weight_decay=1", "seed=3"], True),
    (["render.nonsense=1"], False),
    (["name=null"], False),
    (["lr=0.1", "optimizer=adam"], False),
    (["lr=0.1", "lr=0.2"], False),
    (["optimizer.weight_decay=1", "optimizer={weight_decay: 3}"], False),
    (["model.hidden=[1,2]", "seed=1"], False),
    (["seed=1", "lr=${seed}"], False),
    (["seed=1", "+extra.a=2"], False),
    (["seed=1", "~early_stopping"], False),
    (["hydra.job.name=a", "seed=1"], False),
    (["num_epochs=3", "num_updates=5"], True),
    ([], True),
])  # fmt: skip
def test_a_job_composed_without_hydra_equals_hydras_own(sweep, overrides, is_plain):
    assert plain_job(sweep.config, overrides, sweep.loader) is None  # without what jobs share

    overrides = ["jobs=2", *overrides]
    job = plain_job(sweep.config, overrides, sweep.loader)
    assert (job is not None) is is_plain
    if job is not None:
        alone = sweep.loader.load_sweep_config(sweep.config, overrides)
        assert OmegaConf.to_container(job) == OmegaConf.to_container(alone)
        assert OmegaConf.get_cache(job) == OmegaConf.get_cache(alone)
        for name in ("struct", "readonly"):
            assert job._get_flag(name) == alone._get_flag(name)
            assert job.hydra._get_flag(name) == alone.hydra._get_flag(name)
