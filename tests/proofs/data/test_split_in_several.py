"""The samples of each part are the same for any number of workers and processes."""

import pytest

from train_processes import in_two, trained

PARTS = '''
import os
import torch


class Visits(torch.utils.data.Dataset):
    patients = [f"patient {index * index % 23}" for index in range(60)]

    def __len__(self):
        return 60

    def __getitem__(self, index):
        return torch.tensor([float(index)]), torch.tensor([float(index)])


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(1, 1)

    def forward(self, inputs):
        name = f"{'train' if self.training else 'held'}{os.environ.get('RANK', 0)}.txt"
        with open(name, "a") as file:
            file.writelines(f"{int(number)}\\n" for number in inputs.flatten().tolist())
        return super().forward(inputs)
'''
OPTIONS = (
    "data=torch_dataset", "data.train={_target_: parts.Visits}", "data.split={group: patients}",
    "data.valid=0.3", "data.test=0.3", "task=regression", "metrics=regression",
    "model={_target_: parts.Net}", "num_epochs=1", "batch_size=8", "lr=1e-9", "render=plain",
)  # fmt: skip


def samples_seen(folder):
    """The samples that train and those held out, of the run in the folder."""
    return [
        {int(line) for file in folder.glob(f"{part}*.txt") for line in file.read_text().split()}
        for part in ("train", "held")
    ]


@pytest.mark.usefixtures("preloaded_processes")
def test_groups_are_in_the_same_parts_for_any_number_of_workers_and_processes(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "parts.py").write_text(PARTS)
    trained(tmp_path / "one", *OPTIONS)
    code, errors = in_two(tmp_path / "two", *OPTIONS, "num_workers=2", PYTHONHASHSEED="3")
    assert code == 0, errors
    train, held = samples_seen(tmp_path / "one")
    assert train | held == {*range(60)}
    assert not {index * index % 23 for index in train} & {index * index % 23 for index in held}
    of_processes = samples_seen(tmp_path / "two")
    # whose first batch is compared with its samples, also in evaluation mode
    assert [of_processes[0], of_processes[1] - train] == [train, held]
