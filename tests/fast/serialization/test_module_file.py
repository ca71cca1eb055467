"""Modules to files and back: all differences are reported before a tensor is touched, and
tied weights stay tied.
"""

from pathlib import Path

import pytest
import torch
from torch import nn

from andiron import errors, serialization
from refusals import message_of


def network(seed=0, width=4):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Linear(width, 2))


def tied(seed=0):
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    torch.manual_seed(seed)
    nn.init.normal_(model[0].weight)
    model[1].weight = model[0].weight
    return model


def state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def assert_equal(module, expected):
    assert module.state_dict().keys() == expected.keys()
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def mismatch(*arguments, **options):
    return message_of(errors.MismatchError, serialization.load_file, *arguments, **options)


REMEDY = (
    "load the record of this model; or load what fits (partial=True), map its names "
    "(rename={regex: name}), or name its layout (layout='burn')"
)


def test_a_module_comes_back_with_its_buffers_and_its_own_tensors(tmp_path):
    saved, loaded = network(0), network(1)
    saved(torch.randn(7, 3))
    own = dict(loaded.named_parameters())
    serialization.save_file(saved, tmp_path / "a.safetensors")

    differences = serialization.load_file(loaded, tmp_path / "a.safetensors")
    assert differences == serialization.Differences()
    assert_equal(loaded, saved.state_dict())
    assert int(loaded[1].num_batches_tracked) == 1
    assert all(
        parameter is own[n] and parameter.requires_grad
        for n, parameter in loaded.named_parameters()
    )


def test_what_is_not_persistent_is_not_recorded(tmp_path):
    model = network()
    model.register_buffer("cache", torch.ones(2), persistent=False)
    serialization.save_file(model, tmp_path / "a.safetensors")
    recorded = serialization.load(tmp_path / "a.safetensors").tensors
    assert recorded.keys() == network().state_dict().keys()


def test_all_differences_are_reported_at_once_and_nothing_is_touched(tmp_path):
    model = network()
    tensors = state(model)
    tensors["0.wieght"] = tensors.pop("0.weight")
    tensors["2.weight"] = torch.ones(2, 5)
    tensors["1.num_batches_tracked"] = torch.tensor(3.0)
    tensors["1.running_mean"] = torch.full((4,), 1e300, dtype=torch.float64)
    serialization.save(serialization.Record(tensors), tmp_path / "a.safetensors")
    before = state(model)

    assert mismatch(model, tmp_path / "a.safetensors") == (
        f"{tmp_path / 'a.safetensors'} does not fit the Sequential; nothing was loaded:\n"
        "  missing: '0.weight' (4x3)\n"
        "  unexpected: '0.wieght' (4x3); did you mean '0.weight'?\n"
        "  '1.running_mean' has 1e+300 in the record, which would be infinite as torch.float32\n"
        "  '1.num_batches_tracked' is floating (torch.float32) in the record, and an integer "
        "(torch.int64) "
        "in the module\n"
        "  '2.weight' is 2x5 in the record, and 2x4 in the module\n" + REMEDY
    )
    assert_equal(model, before)


def test_in_part_takes_what_fits_and_returns_the_rest(tmp_path):
    model, other = network(0), network(1)
    tensors = {**state(other), "head.weight": torch.ones(1), "2.weight": torch.ones(2, 5)}
    del tensors["0.bias"]
    serialization.save(serialization.Record(tensors), tmp_path / "a.safetensors")
    before = state(model)

    assert serialization.load_file(
        model, tmp_path / "a.safetensors", partial=True
    ) == serialization.Differences(
        ("0.bias",), ("head.weight",), {"2.weight": "is 2x5 in the record, and 2x4 in the module"}
    )
    assert_equal(
        model, {**state(other), "0.bias": before["0.bias"], "2.weight": before["2.weight"]}
    )


def test_a_record_of_which_nothing_fits_is_refused_even_in_part(tmp_path):
    path = tmp_path / "a.safetensors"
    serialization.save_tensors(path, {"w": torch.ones(1)})
    assert mismatch(nn.Linear(1, 1, bias=False), path, partial=True) == (
        f"{path}: no tensor fits by name; it has 1: w; the model has 1: weight; rename them: "
        f"python scripts/andiron.py import-state-dict {path} renamed.safetensors --rename REGEX=NEW"
    )
    serialization.save_tensors(path, {"weight": torch.ones(3)})
    words = mismatch(nn.Linear(1, 1, bias=False), path, partial=True)
    assert words == (
        f"{path}: no tensor fits by shape: 'weight' is 3 in the record, and 1x1 in the module"
    )


def named(*starts):
    """The three tensors of a small network, below each of these names."""
    return {
        f"{start}{name}": torch.full(shape, 1.0)
        for start in starts
        for name, shape in (("0.weight", (2, 3)), ("0.bias", (2,)), ("1.weight", (2,)))
    }


def below(*places):
    """A module with that network at each place."""
    module = nn.Module()
    for place in places:
        inner = module
        for part in place.split(".")[:-1]:
            inner.add_module(part, inner := nn.Module())
        inner.add_module("0", nn.Linear(3, 2))
        inner.add_module("1", nn.RMSNorm(2))
    return module


@pytest.mark.parametrize("old", ["", "_orig_mod.", "module.", "module._orig_mod.", "model."])
@pytest.mark.parametrize("new", ["", "network.", "network._orig_mod.", "model."])
def test_one_prefix_that_differs_is_replaced(old, new, tmp_path):
    path, module = tmp_path / "a.safetensors", below(new)
    serialization.save_tensors(path, named(old))

    differences = serialization.load_file(module, path, partial=True)

    assert not differences and len(differences.fitting) == 3
    assert all(tensor.eq(1).all() for tensor in module.parameters())
    shown = [side.removesuffix("_orig_mod.") for side in (old, new)]
    same_end = old.endswith("_orig_mod.") and new.endswith("_orig_mod.")
    assert differences.prefix == (
        ("", "") if old == new else tuple(shown) if same_end else (old, new)
    )


@pytest.mark.parametrize(("old", "new", "words"), [
    (["student.", "teacher."], ["network."], "3 fit with 'network.' in place of 'student.'; 3"),
    (["x."], ["one.", "two."], "3 fit with 'one.' in place of 'x.'; 3 fit with 'two.' in"),
    (["net.x.", "other.y."], ["net.y."], " import-state-dict /"),
])  # fmt: skip
def test_prefixes_that_are_not_the_only_ones_are_named_and_nothing_is_loaded(
    old, new, words, tmp_path
):
    path, module = tmp_path / "a.safetensors", below(*new)
    serialization.save_tensors(path, named(*old))
    before = state(module)

    said = mismatch(module, path, partial=True)

    assert words in said and len(said) < 800
    assert said.count(f"import-state-dict {path} renamed.safetensors --rename") == 1
    assert_equal(module, before)


def test_hundreds_of_names_are_cut_to_six_a_side(tmp_path):
    path = tmp_path / "a.safetensors"
    serialization.save_tensors(path, {f"a.{number}.w": torch.ones(1) for number in range(500)})
    module = nn.Sequential(*(nn.Linear(1, 1) for _ in range(300)))

    said = mismatch(module, path, partial=True)

    assert "it has 500: a.0.w, a.1.w" in said and "and 494 more" in said
    assert "the model has 600: 0.weight, 0.bias" in said and len(said) < 600


@pytest.mark.parametrize(("own", "recorded"), [
    (torch.int64, torch.bool), (torch.float32, torch.int64), (torch.bool, torch.uint8),
    (torch.complex64, torch.float32),
])  # fmt: skip
def test_a_tensor_of_another_kind_is_refused(own, recorded, tmp_path):
    model = nn.Module()
    model.register_buffer("b", torch.zeros(2, dtype=own))
    serialization.save(
        serialization.Record({"b": torch.zeros(2, dtype=recorded)}), tmp_path / "a.safetensors"
    )

    assert f"({recorded}) in the record, and " in mismatch(model, tmp_path / "a.safetensors")


def test_names_are_changed_in_the_order_given(tmp_path):
    saved, loaded = network(0), network(1)
    tensors = {
        f"module.layer{name}".replace(".weight", ".w"): tensor
        for name, tensor in state(saved).items()
    }
    serialization.save(serialization.Record(tensors), tmp_path / "a.safetensors")

    serialization.load_file(
        loaded,
        tmp_path / "a.safetensors",
        rename={r"^module\.": "", r"^layer(\d)\.": r"\1.", r"\.w$": ".weight"},
    )
    assert_equal(loaded, saved.state_dict())


@pytest.mark.parametrize(("rename", "words"), [
    ({"nowhere": "x"},
     "rename 'nowhere' matches no name; there are bias, weight: correct it, or leave it out"),
    ({"weight": "w", "weight$": "v"},
     "rename 'weight$' matches no name; there are bias, w: correct it, or leave it out"),
    ({".*": "same"}, "rename makes 'bias' and 'weight' both 'samesame'; narrow the expression"),
    ({"(": "x"},
     "rename '(' to 'x': '(' is not a valid regex: missing ), unterminated subpattern at "
     "position 0; correct it"),
    ({"weight": r"\1"},
     "rename 'weight' to '\\\\1': '\\\\1' replaces no 'weight': invalid group reference 1 at "
     "position 1; correct it"),
])  # fmt: skip
def test_a_rename_that_cannot_be_meant_is_refused(rename, words, tmp_path):
    model = nn.Linear(2, 2)
    serialization.save_file(model, tmp_path / "a.json", serialization.Recorder("json"))
    tensors = dict(sorted(serialization.load(tmp_path / "a.json").tensors.items()))
    serialization.Recorder("json").record(serialization.Record(tensors), tmp_path / "a.json")

    assert mismatch(model, tmp_path / "a.json", rename=rename) == words


def test_tied_weights_are_tied_still(tmp_path):
    saved, loaded = tied(0), tied(1)
    serialization.save_file(saved, tmp_path / "a.safetensors")
    serialization.load_file(loaded, tmp_path / "a.safetensors")

    assert loaded[1].weight is loaded[0].weight and torch.equal(loaded[0].weight, saved[0].weight)


@pytest.mark.parametrize("only", ["0.weight", "1.weight"])
def test_one_name_of_a_tied_weight_is_enough(only, tmp_path):
    saved, loaded = tied(0), tied(1)
    serialization.save(
        serialization.Record({only: saved[0].weight}), tmp_path / "a.safetensors"
    )

    assert (
        serialization.load_file(loaded, tmp_path / "a.safetensors") == serialization.Differences()
    )
    assert loaded[1].weight is loaded[0].weight and torch.equal(loaded[0].weight, saved[0].weight)


def test_two_records_of_one_tied_weight_are_refused(tmp_path):
    tensors = {"0.weight": torch.zeros(5, 3), "1.weight": torch.ones(5, 3)}
    serialization.save(serialization.Record(tensors), tmp_path / "a.safetensors")

    words = mismatch(tied(), tmp_path / "a.safetensors")
    assert (
        "\n  '1.weight' is one tensor with '0.weight' in the module, and another in the record\n"
        in words
    )


def test_weights_that_were_tied_and_are_not_load_apart(tmp_path):
    serialization.save_file(tied(), tmp_path / "a.safetensors")
    loaded = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    serialization.load_file(loaded, tmp_path / "a.safetensors")

    assert (
        torch.equal(loaded[0].weight, loaded[1].weight) and loaded[0].weight is not loaded[1].weight
    )


def test_a_module_with_state_that_is_no_tensor_says_which(tmp_path):
    class Counting(nn.Linear):
        def get_extra_state(self):
            return {"count": 3}

    model, path = nn.Sequential(Counting(1, 1)), tmp_path / "a.safetensors"
    assert message_of(errors.MismatchError, serialization.save_file, model, path) == (
        "0._extra_state: extra state that is not a tensor; record it separately, as values"
    )


def test_thousands_of_strange_names_are_reported_in_good_time(tmp_path):
    tensors = {f"encoder.layers.{number}.weight": torch.ones(1) for number in range(3000)}
    model = nn.ModuleDict({"decoder": nn.ModuleList(nn.Linear(1, 1) for _ in range(1500))})
    serialization.save(serialization.Record(tensors), tmp_path / "a.safetensors")

    assert len(mismatch(model, tmp_path / "a.safetensors").splitlines()) == 3000 + 3000 + 2


def test_a_square_matrix_is_not_taken_for_another_layout(tmp_path: Path) -> None:
    layer = nn.Linear(4, 4)
    for layout, other in (("burn", "torch"), ("torch", "burn")):
        path = tmp_path / f"{layout}.safetensors"
        serialization.save_file(layer, str(path), layout=layout)
        for kind, given, words in (
            (errors.MismatchError, other,
             f"has the layout '{layout}', not '{other}'; pass layout='{layout}'"),
            (ValueError, "brun", "layout is 'brun'; choose from torch, burn; did you mean 'burn'"),
        ):  # fmt: skip
            again = nn.Linear(4, 4)
            assert words in message_of(kind, serialization.load_file, again, path, layout=given)
        for words in (layout, None):  # the file tells it
            again = nn.Linear(4, 4)
            serialization.load_file(again, path, layout=words)
            assert torch.equal(again.weight, layer.weight)


def test_a_module_without_memory_is_refused_both_ways(tmp_path: Path) -> None:
    path = tmp_path / "whole.safetensors"
    serialization.save_file(nn.Linear(2, 3), path)
    words = "weight, bias: on the meta device, without data; call module.to_empty"
    for hollow in (nn.Linear(2, 3, device="meta"), nn.LazyLinear(3)):
        assert words in message_of(errors.MismatchError, serialization.load_file, hollow, path)
        other = tmp_path / "hollow.safetensors"
        assert words in message_of(errors.MismatchError, serialization.save_file, hollow, other)
    assert [path.name for path in tmp_path.iterdir()] == ["whole.safetensors"]


def test_a_missing_folder_is_reported_by_the_requested_file(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "x.safetensors"
    with pytest.raises(FileNotFoundError) as raised:
        serialization.save_file(nn.Linear(2, 2), path)
    assert raised.value.filename == str(path)
