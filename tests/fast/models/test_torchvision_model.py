"""torchvision's networks: made for the data, with weights read from torch's hub folder, and nothing
of the network's own."""

from collections.abc import Sequence
from pathlib import Path
from urllib.error import URLError

import pytest
import torch
from torch import Tensor, nn

from andiron import errors, randomness
from andiron.models.zoo import torchvision
from andiron.optim.owners import match_rules
from refusals import lacking, message_of

FILES = {  # of each network's first weights, as torchvision names them
    "resnet18": "resnet18-f37072fd.pth",
    "mobilenet_v3_small": "mobilenet_v3_small-047dcff4.pth",
    "squeezenet1_1": "squeezenet1_1-b8a52dc0.pth",
    "densenet121": "densenet121-a639ec97.pth",
    "googlenet": "googlenet-1378be20.pth",
    "vit_b_32": "vit_b_32-d86f8d99.pth",
}
HEADS = {"resnet18": "fc", "mobilenet_v3_small": "classifier.3", "squeezenet1_1": "classifier.1"}
CONVOLUTIONS = {
    "resnet18": "conv1", "mobilenet_v3_small": "features.0.0", "squeezenet1_1": "features.0",
}  # fmt: skip
each_network = pytest.mark.parametrize("name", HEADS)


def images(*shape: int) -> Tensor:
    return torch.randn(shape, generator=randomness.stream(0, "images", *shape))


def original(name: str, **arguments: object) -> nn.Module:
    """torchvision's own network for ImageNet."""
    from torchvision import models

    torch.manual_seed(0)
    return models.get_model(name, **arguments).eval()


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where torch keeps what it has downloaded: empty, and with no way to download."""

    def no_network(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "urlopen", no_network)
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


@each_network
@pytest.mark.parametrize("shape", [(1, 40, 36), (4, 32, 32)], ids=str)
def test_it_reads_images_of_any_channels_and_has_an_output_for_each_class(
    name: str, shape: Sequence[int]
) -> None:
    model = torchvision(name, shape, 7).eval()
    assert model(images(5, *shape)).shape == (5, 7)
    assert model.get_submodule(CONVOLUTIONS[name]).in_channels == shape[0]


@each_network
def test_only_first_convolution_and_head_differ_from_torchvision(name: str) -> None:
    own = {key: tensor.shape for key, tensor in original(name).state_dict().items()}
    result = {
        key: tensor.shape for key, tensor in torchvision(name, (1, 32, 32), 7).state_dict().items()
    }
    assert list(result) == list(own)
    differing = {key.rpartition(".")[0] for key in own if result[key] != own[key]}
    assert differing == {CONVOLUTIONS[name], HEADS[name]}


@each_network
def test_with_three_channels_it_is_torchvisions_own_network_to_the_bit(name: str) -> None:
    expected = original(name, num_classes=7)
    torch.manual_seed(0)
    model = torchvision(name, (3, 32, 32), 7)
    assert model.training
    assert torch.equal(model.eval()(images(5, 3, 32, 32)), expected(images(5, 3, 32, 32)))


@pytest.mark.parametrize("weights", ["IMAGENET1K_V1", "DEFAULT"])
@each_network
def test_stored_weights_are_read_all_but_the_heads(
    name: str, weights: str, checkpoints: Path
) -> None:
    stored = original(name).state_dict()
    torch.save(stored, checkpoints / FILES[name])
    torch.manual_seed(1)
    result = torchvision(name, (3, 32, 32), 7, weights=weights).state_dict()
    assert {
        key.rpartition(".")[0] for key in stored if not torch.equal(result[key], stored[key])
    } == {HEADS[name]}


@each_network
def test_the_head_is_new_even_for_as_many_classes(name: str, checkpoints: Path) -> None:
    stored = original(name).state_dict()
    torch.save(stored, checkpoints / FILES[name])
    torch.manual_seed(1)
    result = torchvision(name, (3, 32, 32), 1000, weights="DEFAULT").get_parameter(
        f"{HEADS[name]}.weight"
    )
    assert not torch.equal(result, stored[f"{HEADS[name]}.weight"])


@each_network
@pytest.mark.parametrize("channels", [1, 5])
def test_grey_images_have_torchvisions_outputs(name: str, channels: int, checkpoints: Path) -> None:
    own = original(name)
    torch.save(own.state_dict(), checkpoints / FILES[name])
    model = torchvision(name, (channels, 64, 64), 7, weights="DEFAULT").eval()
    actual, expected = model.get_submodule(CONVOLUTIONS[name]), own.get_submodule(
        CONVOLUTIONS[name]
    )
    grey = images(5, 1, 64, 64)
    # float32: 27 to 147 products below 1 a sum, in another order, at 6e-8 each
    torch.testing.assert_close(
        actual(grey.expand(-1, channels, -1, -1)), expected(grey.expand(-1, 3, -1, -1)), rtol=0,
        atol=1e-5,
    )  # fmt: skip


def test_old_names_of_densenet_weights_are_read(checkpoints: Path) -> None:
    state = original("densenet121").state_dict()
    old = {}
    for key, tensor in state.items():
        parent, _, rest = key.partition("denselayer")
        for part in ("norm", "relu", "conv"):
            rest = rest.replace(f".{part}1", f".{part}.1").replace(f".{part}2", f".{part}.2")
        old[f"{parent}denselayer{rest}" if rest else key] = tensor
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    torch.save(old, checkpoints / FILES["densenet121"])
    result = torchvision("densenet121", (3, 32, 32), 7, weights="DEFAULT").state_dict()
    assert [key for key in state if not torch.equal(result[key], state[key])] == [
        "classifier.weight", "classifier.bias",
    ]  # fmt: skip


def test_googlenet_has_no_auxiliary_outputs(checkpoints: Path) -> None:
    stored = original("googlenet", init_weights=False, aux_logits=True)
    torch.save(stored.state_dict(), checkpoints / FILES["googlenet"])
    for weights, channels in ((None, 3), ("DEFAULT", 3), ("DEFAULT", 1)):
        model = torchvision("googlenet", (channels, 64, 64), 7, weights=weights)
        assert model(images(5, channels, 64, 64)).shape == (5, 7)  # while it trains
        assert not any(name.startswith("aux") for name, _ in model.named_parameters())
        # as torchvision itself does
        assert model.transform_input == (weights is not None and channels == 3)


def test_inception_has_no_auxiliary_output() -> None:
    model = torchvision("inception_v3", (1, 75, 75), 7)
    assert model(images(2, 1, 75, 75)).shape == (2, 7)  # while it trains
    assert not any(name.startswith("Aux") for name, _ in model.named_parameters())


@pytest.mark.slow
def test_positions_of_a_vit_are_interpolated_to_the_image_size(checkpoints: Path) -> None:
    state = original("vit_b_32").state_dict()
    places = state["encoder.pos_embedding"]
    torch.save(state, checkpoints / FILES["vit_b_32"])
    result = torchvision("vit_b_32", (3, 64, 64), 7, weights="DEFAULT").get_parameter(
        "encoder.pos_embedding"
    )
    assert torch.equal(result[:, 0], places[:, 0])  # of the class token
    corners = places[:, 1:].unflatten(1, (7, 7))[:, ::6, ::6].flatten(1, 2)
    # 2x2 of 7x7 places are its corners, which bicubic weights, sums of 16 in float32, give to 1e-6
    torch.testing.assert_close(result[:, 1:], corners, rtol=0, atol=1e-6)


def resnet18_with_weights() -> nn.Module:
    return torchvision("resnet18", (3, 32, 32), 7, weights="DEFAULT")


def test_the_error_about_missing_weights_names_file_url_and_remedy(checkpoints: Path) -> None:
    words = (
        f"ResNet18_Weights.IMAGENET1K_V1: {checkpoints / FILES['resnet18']} is missing and could "
        "not be downloaded from https://download.pytorch.org/models/resnet18-f37072fd.pth "
        "(<urlopen error no route to host>); put it there, point TORCH_HOME at the folder ... or "
        "start from random ones (weights=null)"
    )
    assert lacking(words, message_of(errors.DataError, resnet18_with_weights)) == []
    assert list(checkpoints.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04 and no more"])
def test_a_damaged_file_is_reported_by_name(content: bytes, checkpoints: Path) -> None:
    file = checkpoints / FILES["resnet18"]
    file.write_bytes(content)
    words = f"{file}: no weights can be read from it ( ... ); remove it to download it again"
    assert lacking(words, message_of(errors.DataError, resnet18_with_weights)) == []


class Harmful:
    """A file of pickles can run a function of its choice."""

    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("it ran",))


def test_a_file_of_weights_runs_nothing(
    checkpoints: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.save({"conv1.weight": Harmful()}, checkpoints / FILES["resnet18"])
    message = message_of(errors.DataError, resnet18_with_weights)
    assert "no weights can be read from it" in message
    assert "it ran" not in capsys.readouterr().out


@pytest.mark.parametrize(("other", "words"), [
    ("squeezenet1_1", 'Missing key(s) in state_dict: "conv1.weight"'),
    ("resnet34", 'Unexpected key(s) in state_dict: "layer1.2.conv1.weight"'),
    ("resnet50", "size mismatch for layer1.0.conv1.weight"),
])  # fmt: skip
def test_weights_of_another_network_are_refused(other: str, words: str, checkpoints: Path) -> None:
    torch.save(original(other).state_dict(), checkpoints / FILES["resnet18"])
    whole = f"ResNet18_Weights.IMAGENET1K_V1: the file has weights of another network: ... {words}"
    assert lacking(whole, message_of(errors.DataError, resnet18_with_weights)) == []


def test_looking_whether_it_can_read_the_images_changes_nothing_in_it() -> None:
    expected, drawn = original("mobilenet_v3_small", num_classes=7), torch.rand(3)
    torch.manual_seed(0)
    model = torchvision("mobilenet_v3_small", (3, 32, 32), 7)
    assert torch.equal(torch.rand(3), drawn)
    assert all(module.training for module in model.modules())
    assert not any(
        parameter.is_meta or parameter.is_inference() for parameter in model.parameters()
    )
    result = model.state_dict()
    assert [
        key for key, tensor in expected.state_dict().items() if not torch.equal(result[key], tensor)
    ] == []


@each_network
def test_rules_know_its_head_as_the_last_layer(name: str) -> None:
    described = match_rules.described(torchvision(name, (1, 32, 32), 7))
    last = match_rules.Rule(match_rules.Match(tag=(match_rules.LAST,)))
    assert [value.name for value in described if last(value)] == [
        f"{HEADS[name]}.weight", f"{HEADS[name]}.bias",
    ]  # fmt: skip
