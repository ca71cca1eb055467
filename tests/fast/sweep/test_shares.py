"""How cores and GPUs are shared out among jobs side by side."""

import pytest

from andiron.plain import processor
from andiron.wings.sweep import shares


@pytest.mark.parametrize(
    ("visible", "of_each_job"),
    {
        "numbers": ("2,5", ["2", "5", "2", "5"]),
        "as a person types them": (" 0, 1,", ["0", "1", "0", "1"]),
        "identities": ("GPU-8932f937,GPU-11", ["GPU-8932f937", "GPU-11"] * 2),
        "parts of GPUs": ("MIG-a,MIG-b,MIG-c", ["MIG-a", "MIG-b", "MIG-c", "MIG-a"]),
        "what CUDA reads as the end": ("0,1,-1,2", ["0", "1", "0", "1"]),
        "one": ("3", [None] * 4),  # all jobs use it, as the sweep's own environment says
        "none": ("", [None] * 4),
    }.values(),
)
def test_each_job_gets_one_gpu_in_turn_and_all_get_the_only_one(visible, of_each_job):
    gpus = shares.visible_gpus({shares.GPUS: visible})

    got = [shares.environment_of(place, gpus=gpus, sharing=4) for place in range(4)]

    assert [each.get(shares.GPUS) for each in got] == of_each_job
    assert shares.environment_of(0, gpus=gpus, sharing=1) == {}


def test_threads_are_shared_out_unless_the_user_chose_them(monkeypatch):
    monkeypatch.setattr(processor, "cores", lambda: 8)

    assert [shares.threads(jobs, {}) for jobs in (1, 3, 16)] == [None, "2", "1"]
    assert shares.threads(4, {shares.THREADS: "7"}) == "7"
