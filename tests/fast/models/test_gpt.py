"""The language model: its blocks beside the formula, it sees only what came before, shares its head
with its embedding, and continues a text."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from andiron import gradients, randomness
from andiron.models import Dropout
from andiron.models.gpt import GPT
from andiron.models.transformer import Attention, Block
from andiron.optim.owners import match_rules
from refusals import message_of

VOCABULARY, CONTEXT = 11, 8


def network(
    *, layers: int = 2, heads: int = 2, dim: int = 16, dropout: float = 0.0, scale: float = 1.0
) -> GPT:
    """A small one; with a larger `scale` of its weights it is surer of what comes next, so that
    choices differ."""
    randomness.start_stream(0, "init")
    model = GPT(VOCABULARY, CONTEXT, layers=layers, heads=heads, dim=dim, dropout=dropout)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    return model


def tokens_of(*shape: int, key: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, shape, generator=randomness.stream(0, "tokens", *shape, key))


def cross_entropy(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def vectors_of(*shape: int) -> Tensor:
    return torch.randn(shape, generator=randomness.stream(0, "vectors"), dtype=torch.float64)


def attention_by_hand(attention: Attention, inputs: Tensor, *, is_causal: bool) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V, head by head."""
    dim = inputs.shape[-1]
    size = dim // attention.heads
    queries, keys, values = attention.queries_keys_values(inputs).split(dim, dim=-1)
    heads = []
    for head in range(attention.heads):
        mine = slice(head * size, (head + 1) * size)
        scores = queries[..., mine] @ keys[..., mine].mT / math.sqrt(size)
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        heads.append(scores.softmax(-1) @ values[..., mine])
    return attention.projection(torch.cat(heads, dim=-1))


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("heads", [1, 3, 4])
def test_attention_is_the_softmax_of_its_formula(heads: int, is_causal: bool) -> None:
    attention, inputs = (
        Attention(12, heads, is_causal=is_causal).double(),
        vectors_of(5, 7, 12),
    )
    expected = attention_by_hand(attention, inputs, is_causal=is_causal)
    # float64: sums of at most 12 products of size 1 in another order, 1.1e-16 each, through a
    # softmax and a linear layer
    torch.testing.assert_close(attention(inputs), expected, rtol=0, atol=1e-14)


def test_a_block_adds_attention_then_feed_forward() -> None:
    block, inputs = (
        Block(12, 3, hidden=20, dropout=0.0, is_causal=False).double(),
        vectors_of(5, 7, 12),
    )
    normed = functional.layer_norm(inputs, (12,))
    middle = inputs + attention_by_hand(block.attention, normed, is_causal=False)
    hidden = block.feed_forward.expansion(functional.layer_norm(middle, (12,)))
    gelu = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
    # float64, as above, and sums of 20 products after it
    torch.testing.assert_close(
        block(inputs), middle + block.feed_forward.projection(gelu), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("changed", range(CONTEXT))
def test_a_token_changes_no_logits_before_it_and_all_from_it_on(changed: int) -> None:
    model, tokens = network(scale=5.0), tokens_of(3, CONTEXT)
    others = tokens.clone()
    others[:, changed] = (tokens[:, changed] + 1) % VOCABULARY
    before, after = model(tokens), model(others)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert (before[:, changed:] != after[:, changed:]).any(-1).all()


def test_logits_are_the_products_of_the_last_state_and_the_token_vectors() -> None:
    model, tokens = network(), tokens_of(3, 5)
    states = model.embedding.weight[tokens] + model.embedding.positions[:5]
    for block in model.blocks:
        states = block(states)
    expected = functional.layer_norm(states, (16,)) @ model.embedding.weight.mT
    # float32: sums of 16 products below 0.2, 6e-8 each
    torch.testing.assert_close(model(tokens), expected, rtol=0, atol=2e-7)


def test_head_and_embedding_share_one_tensor_and_gradient() -> None:
    model, tokens = network(), tokens_of(3, CONTEXT)
    assert model.head.weight is model.embedding.weight
    assert [name for name, _ in model.named_parameters() if "head" in name] == []
    result = gradients.backward(cross_entropy(model, tokens, tokens), model)
    untied = network()
    untied.head.weight = nn.Parameter(untied.embedding.weight.detach().clone())
    apart = gradients.backward(cross_entropy(untied, tokens, tokens), untied)
    # float32: one sum of two, below 0.1
    torch.testing.assert_close(
        result["embedding.weight"],
        apart["embedding.weight"] + apart["head.weight"],
        rtol=0,
        atol=1e-7,
    )


def test_they_share_it_after_a_move_a_copy_and_a_state_too() -> None:
    model, loaded = network().double(), network(scale=2.0).double()
    loaded.load_state_dict(model.state_dict())
    for other in (loaded, copy.deepcopy(model)):
        assert other.head.weight is other.embedding.weight
        assert torch.equal(model(tokens_of(3, 5)), other(tokens_of(3, 5)))


def test_it_has_the_parameters_counted_by_hand() -> None:
    model = GPT(65, 32, layers=3, heads=4, dim=24)
    block = 2 * 2 * 24 + 4 * 24 * 24 + 4 * 24 + 2 * 4 * 24 * 24 + 5 * 24
    assert (
        sum(parameter.numel() for parameter in model.parameters())
        == 65 * 24 + 32 * 24 + 3 * block + 2 * 24
    )


def test_weights_start_as_in_gpt_2() -> None:
    randomness.start_stream(0, "init")
    model = GPT(211, 97, layers=8, heads=4, dim=64)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            std = 0.02 / math.sqrt(2 * 8) if name.endswith("projection.weight") else 0.02
            # of n normal values the mean square has deviation sqrt(2 / n): 5 of them; false alarm
            # 6e-7 each
            spread = float((parameter.detach() / std).square().mean())
            assert abs(spread - 1) < 5 * math.sqrt(2 / parameter.numel()), name


def greedy(model: GPT, tokens: Tensor, number: int) -> Tensor:
    """The continuation, one argmax after another."""
    for _ in range(number):
        logits = model(tokens[:, max(tokens.shape[1] - CONTEXT, 0) :])
        tokens = torch.cat([tokens, logits[:, -1].argmax(-1)[:, None]], dim=1)
    return tokens[:, -number:]


@pytest.mark.parametrize("temperature", [0, 1e-320])
@pytest.mark.parametrize("length", [1, 5, CONTEXT, CONTEXT + 4])
def test_temperature_0_takes_the_likeliest_token(length: int, temperature: float) -> None:
    model, tokens = network(scale=5.0), tokens_of(3, length)
    result = model.generate(tokens, 2 * CONTEXT + 1, temperature=temperature)
    assert result.shape == (3, 2 * CONTEXT + 1)
    assert torch.equal(result, greedy(model, tokens, 2 * CONTEXT + 1))


SETTINGS = [{"temperature": 0}, {"temperature": 0.8, "top_k": 5}]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("length", [1, 5, CONTEXT, CONTEXT + 4])
def test_cached_keys_and_values_give_the_same_tokens(
    length: int, settings: dict[str, float]
) -> None:
    model, tokens = network(scale=5.0), tokens_of(3, length)

    def drawn(is_cached: bool) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        kwargs = settings | {"generator": generator, "is_cached": is_cached}
        return model.generate(tokens, 2 * CONTEXT + 1, **kwargs)

    assert torch.equal(drawn(is_cached=True), drawn(is_cached=False))


def test_streamed_tokens_equal_generate_and_leave_no_mode_behind() -> None:
    model, tokens = network(scale=5.0, dropout=0.5), tokens_of(3, 5)
    settings = {"generator": torch.Generator().manual_seed(0)}
    streamed = []
    for token in model.stream(tokens, 9, **settings):
        assert model.training and not torch.is_inference_mode_enabled()
        assert not token.is_inference()
        streamed.append(token)
    settings["generator"].manual_seed(0)
    assert torch.equal(torch.cat(streamed, 1), model.generate(tokens, 9, **settings))


def test_a_continuation_is_a_function_of_the_generator() -> None:
    model, tokens = network(), tokens_of(3, 5)
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    result = [
        model.generate(tokens, 20, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert torch.equal(result[0], result[1])
    assert not torch.equal(result[0], result[2])
    assert torch.equal(torch.rand(3), expected)  # nothing was drawn from torch's own


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (2, 3)])
def test_tokens_are_drawn_as_often_as_the_softmax_of_their_logits_says(
    temperature: float, top_k: int | None
) -> None:
    model, tokens, number = network(scale=4.0), tokens_of(1, 5), 20_011
    generator = torch.Generator().manual_seed(0)
    drawn = model.generate(
        tokens.expand(number, 5), 1, temperature=temperature, top_k=top_k, generator=generator
    )
    logits = model(tokens)[0, -1].detach() / temperature
    if top_k is not None:
        logits[logits < logits.sort(descending=True).values[top_k - 1]] = -math.inf
    rates = logits.softmax(0).double()
    counts = torch.bincount(drawn.flatten(), minlength=VOCABULARY)
    # 5 standard deviations of each of 11 counts: false alarm 6e-6; a token with no rate is never
    # drawn
    assert ((counts - number * rates).abs() <= 5 * (number * rates * (1 - rates)).sqrt()).all()


def test_generation_runs_in_evaluation_mode_and_restores_modes() -> None:
    model, tokens = network(dropout=0.5, scale=5.0), tokens_of(3, 5)
    model.blocks[0].eval()
    result = model.generate(tokens, 9, temperature=0)
    assert torch.equal(result, network(scale=5.0).generate(tokens, 9, temperature=0))
    assert (model.training, model.blocks[0].training, model.blocks[1].training) == (
        True, False, True,
    )  # fmt: skip
    assert not result.is_inference()
    assert model.generate(tokens, 0).shape == (3, 0)


@pytest.mark.parametrize(("length", "settings", "message"), [
    (0, {}, "there is no token to follow; begin with one, such as a line break"),
    (3, {"temperature": -0.5}, "temperature=-0.5: should be positive, or 0 for the likeliest toke"),
    (3, {"temperature": math.nan}, "temperature=nan: should be positive, or 0 for the likeliest t"),
    (3, {"temperature": math.inf}, "temperature=inf: should be positive, or 0 for the likeliest t"),
    (3, {"top_k": 0}, "top_k=0: should be between 1 and the 11 tokens there are, or None for all"),
    (3, {"top_k": 12}, "top_k=12: should be between 1 and the 11 tokens there are, or None for"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(length, settings, message):
    result = message_of(ValueError, network().generate, tokens_of(2, length), 3, **settings)
    assert result.startswith(message)


def test_more_tokens_than_the_context_holds_are_refused() -> None:
    assert message_of(ValueError, network(), tokens_of(2, 9)) == (
        "a sequence of 9 tokens does not fit context_length=8; cut it, or build the network with a "
        "longer context"
    )


def test_it_drops_after_the_embedding_and_on_both_branches_of_a_block() -> None:
    model = network(dropout=0.25)
    dropped: list[str] = []
    for name, module in model.named_modules():
        if isinstance(module, Dropout):
            assert module.p == 0.25
            module.register_forward_hook(
                lambda module, inputs, output, name=name: dropped.append(name)
            )
    model(tokens_of(3, 5))
    assert dropped == ["dropout", *["blocks.0.dropout"] * 2, *["blocks.1.dropout"] * 2]


def test_the_shared_weight_is_tagged_first_and_last() -> None:
    described = match_rules.described(network())
    tagged = {
        tag: [value.names for value in described if tag in value.tags]
        for tag in (match_rules.FIRST, match_rules.LAST)
    }
    assert tagged == {
        "first": [("embedding.weight", "head.weight"), ("embedding.positions",)],
        "last": [("embedding.weight", "head.weight")],
    }
    hidden_matrices = match_rules.Rule(match_rules.Match(rank=(2,), tag=("hidden",)))
    assert [value.name for value in described if hidden_matrices(value)] == [
        f"blocks.{block}.{layer}.weight" for block in range(2) for layer in (
            "attention.queries_keys_values", "attention.projection", "feed_forward.expansion",
            "feed_forward.projection",
        )
    ]  # fmt: skip
