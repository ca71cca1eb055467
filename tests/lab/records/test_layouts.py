"""Burn's layout, against numbers worked out by hand; files of Burn, and files for Burn."""

import json

import pytest
import safetensors.torch
import torch
from torch import nn

from andiron import errors, serialization
from refusals import message_of


def burn_file(path, tensors):
    """A safetensors file as Burn's store writes one: float32, and its own metadata."""
    entries, data = (
        {"__metadata__": {"format": "safetensors", "producer": "burn", "version": "0.21.0"}}, b"",
    )  # fmt: skip
    for name, values in tensors.items():
        content = torch.tensor(values, dtype=torch.float32)
        start = len(data)
        data += content.numpy().tobytes()
        entries[name] = {
            "dtype": "F32", "shape": list(content.shape), "data_offsets": [start, len(data)],
        }  # fmt: skip
    header = json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    return path


def raw(module, path):
    serialization.save_file(module, path, layout="burn")
    return {name: tensor.tolist() for name, tensor in safetensors.torch.load_file(path).items()}


def test_a_linear_of_burn_multiplies_from_the_right(tmp_path):
    # Burn: y = x W + b, W of [in, out]. (1 2 3) W = (1*1 + 2*2 + 3*3, 1*10 + 2*20 + 3*30) = (14,
    # 140); + (0.5, -1)
    tensors = {"weight": [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]], "bias": [0.5, -1.0]}
    linear = nn.Linear(3, 2)
    serialization.load_file(linear, burn_file(tmp_path / "a.safetensors", tensors), layout="burn")

    assert linear(torch.tensor([1.0, 2.0, 3.0])).tolist() == [14.5, 139.0]
    assert linear.weight.tolist() == [[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]
    assert raw(linear, tmp_path / "b.safetensors") == tensors


def test_a_square_linear_is_transposed_too(tmp_path):
    # (1 0) W is the first row of W
    linear = nn.Linear(2, 2, bias=False)
    serialization.load_file(
        linear,
        burn_file(tmp_path / "a.safetensors", {"weight": [[1.0, 2.0], [3.0, 4.0]]}),
        layout="burn",
    )

    assert linear(torch.tensor([1.0, 0.0])).tolist() == [1.0, 2.0]


def test_a_convolution_of_burn_is_as_torchs(tmp_path):
    # weight [out, in, height, width]; cross-correlation of 1..9 in rows with (1 0 / 0 2), and 10
    # added:
    # 1*1 + 5*2, 2*1 + 6*2, 4*1 + 8*2, 5*1 + 9*2
    tensors = {"weight": [[[[1.0, 0.0], [0.0, 2.0]]]], "bias": [10.0]}
    convolution = nn.Conv2d(1, 1, 2)
    serialization.load_file(
        convolution, burn_file(tmp_path / "a.safetensors", tensors), layout="burn"
    )

    assert convolution(torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)).tolist() == [
        [[[21.0, 24.0], [30.0, 33.0]]]
    ]
    assert raw(convolution, tmp_path / "b.safetensors") == tensors


@pytest.mark.parametrize(("transposed", "shape"), [
    (nn.ConvTranspose1d, (2, 3, 5)), (nn.ConvTranspose2d, (2, 3, 5, 5)),
    (nn.Conv3d, (3, 2, 5, 5, 5)),
])  # fmt: skip
def test_other_convolutions_are_as_torchs(transposed, shape, tmp_path):
    module = transposed(2, 3, 5)
    result = raw(module, tmp_path / "a.safetensors")

    assert torch.tensor(result["weight"]).shape == shape and torch.equal(
        torch.tensor(result["weight"]), module.weight
    )


@pytest.mark.parametrize(
    ("kind", "dims"), [(nn.BatchNorm1d, 0), (nn.BatchNorm2d, 2), (nn.BatchNorm3d, 3)]
)
def test_a_batch_norm_of_burn_scales_by_gamma_and_keeps_its_statistics(kind, dims, tmp_path):
    # channel 0: (7 - 3) / sqrt(4) * 10 + 1 = 21; channel 1: (2 - -1) / sqrt(9) * 0.5 + -2 = -1.5;
    # eps 0, all of it exact
    tensors = {
        "gamma": [10.0, 0.5], "beta": [1.0, -2.0], "running_mean": [3.0, -1.0],
        "running_var": [4.0, 9.0],
    }  # fmt: skip
    norm = kind(2, eps=0.0).eval()
    norm.num_batches_tracked.fill_(17)
    serialization.load_file(norm, burn_file(tmp_path / "a.safetensors", tensors), layout="burn")

    inputs = torch.tensor([[7.0, 2.0]]).reshape(1, 2, *[1] * dims)
    assert norm(inputs).flatten().tolist() == [21.0, -1.5]
    assert int(norm.num_batches_tracked) == 17
    assert raw(norm, tmp_path / "b.safetensors") == tensors


def test_a_layer_norm_of_burn_scales_by_gamma(tmp_path):
    # mean of (-1 1) is 0, variance 1; eps 3 makes the root 2: (-0.5 0.5) * (2 4) + (1 0)
    tensors = {"gamma": [2.0, 4.0], "beta": [1.0, 0.0]}
    norm = nn.LayerNorm(2, eps=3.0)
    serialization.load_file(norm, burn_file(tmp_path / "a.safetensors", tensors), layout="burn")

    assert norm(torch.tensor([-1.0, 1.0])).tolist() == [0.0, 2.0]
    assert raw(norm, tmp_path / "b.safetensors") == tensors


@pytest.mark.parametrize(
    ("module", "names"),
    [
        (nn.GroupNorm(2, 4), {"gamma", "beta"}),
        (nn.InstanceNorm2d(4, affine=True), {"gamma", "beta"}),
        (nn.RMSNorm(4), {"gamma"}),
        (nn.PReLU(4), {"alpha"}),
        (nn.Embedding(3, 4), {"weight"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_modules_have_burns_names_and_come_back(module, names, tmp_path):
    before = {name: torch.randn_like(tensor) for name, tensor in module.state_dict().items()}
    module.load_state_dict(before)
    assert raw(module, tmp_path / "a.safetensors").keys() == names
    for tensor in module.state_dict().values():
        tensor.zero_()
    serialization.load_file(module, tmp_path / "a.safetensors", layout="burn")

    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])


class Network(nn.Module):
    """Parts below parts, and a parameter of its own."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(2))
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)) for _ in range(2)
        )


def test_modules_are_found_wherever_they_are_and_a_round_trip_is_exact(tmp_path):
    saved, loaded = Network(), Network()
    result = raw(saved, tmp_path / "a.safetensors")
    block = ["0.bias", "0.weight", "1.beta", "1.gamma", "1.running_mean", "1.running_var"]

    assert sorted(result) == [
        f"blocks.{number}.{name}" for number in range(2) for name in block
    ] + ["scale"]
    assert torch.tensor(result["blocks.1.0.weight"]).shape == (3, 2)
    assert (
        serialization.load_file(loaded, tmp_path / "a.safetensors", layout="burn")
        == serialization.Differences()
    )
    for name, tensor in saved.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name])


def test_a_tied_linear_and_embedding_lie_apart_in_burn_and_load_as_one(tmp_path):
    def tied():
        model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
        model[1].weight = model[0].weight
        return model

    saved, loaded = tied(), tied()
    result = raw(saved, tmp_path / "a.safetensors")
    assert torch.equal(torch.tensor(result["0.weight"]), torch.tensor(result["1.weight"]).t())
    serialization.load_file(loaded, tmp_path / "a.safetensors", layout="burn")
    assert loaded[1].weight is loaded[0].weight and torch.equal(loaded[0].weight, saved[0].weight)


def test_differences_are_reported_in_the_files_own_names_and_shapes(tmp_path):
    path = burn_file(
        tmp_path / "a.safetensors",
        {"0.weight": [[1.0, 2.0]], "1.weight": [1.0, 2.0], "1.beta": [0.0, 0.0]},
    )
    with pytest.raises(errors.MismatchError) as error:
        serialization.load_file(
            nn.Sequential(nn.Linear(3, 2, bias=False), nn.LayerNorm(2)), path, layout="burn"
        )

    assert "\n  missing: '1.gamma' (2)\n  unexpected: '1.weight' (2)\n" in str(error.value)
    assert "\n  '0.weight' is 1x2 in the record, and 3x2 in the module\n" in str(error.value)


def test_what_has_no_like_in_burn_is_refused_by_name(tmp_path):
    model = nn.ModuleDict({
        "block": nn.TransformerEncoderLayer(4, 2, batch_first=True),
        "memory": nn.LSTM(2, 2),
        "norm": nn.InstanceNorm1d(2, track_running_stats=True),
    })  # fmt: skip
    with pytest.raises(errors.MismatchError) as error:
        serialization.save_file(model, tmp_path / "a.safetensors", layout="burn")

    assert str(error.value) == (
        "layout 'burn' has no counterpart of:\n  'block.self_attn' is a MultiheadAttention: Burn "
        "has query, key, value and output linears, torch has one in_proj\n  'memory' is a LSTM: "
        "Burn has two linears a gate, torch has all gates in one tensor\n  'norm' is a "
        "InstanceNorm1d: Burn's instance norm has no running statistics\nuse layout 'torch', or "
        "build the module from parts that Burn has"
    )
    assert not list(tmp_path.iterdir())


def test_an_unknown_layout_names_those_there_are(tmp_path):
    path = tmp_path / "a.safetensors"
    message = message_of(ValueError, serialization.save_file, nn.Linear(1, 1), path, layout="Burn")
    assert message == "layout is 'Burn'; choose from torch, burn; did you mean 'burn'?"
