"""Language modelling, against a plain loop; what is counted, and what is shown."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from andiron import data, errors, inference, outputs
from andiron.data.dataset import Batch
from andiron.learner import LearnerBuilder
from andiron.metrics import Loss
from andiron.models.gpt import GPT
from andiron.optim import GradientsAccumulator, Optimizer
from andiron.protocols import Shows, TrainStep, ValidStep
from andiron.tasks.language import LanguageModel
from andiron.tasks import CrossEntropy
from refusals import message_of

LETTERS = ["\n", "a", "b", "é"]
SIZES = (3, 1, 4, 2)


class Bigram(nn.Module):
    """Which token follows is a matter of the one before."""

    def __init__(self, size):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(size, 6)
        self.head = nn.Linear(6, size)

    def forward(self, tokens):
        return self.head(self.embedding(tokens))

    def generate(self, tokens, number, *, temperature=1.0, top_k=None, generator=None):
        start = tokens.shape[1]
        for _ in range(number):
            logits = self(tokens[:, -1]) / temperature
            tokens = torch.cat(
                [tokens, torch.multinomial(logits.softmax(-1), 1, generator=generator)], dim=1
            )
        return tokens[:, start:]


def batch(size=10, time=5, classes=4):
    tokens = torch.randint(classes, (size, time + 1), generator=torch.Generator().manual_seed(1))
    return Batch(tokens[:, :-1], tokens[:, 1:])


def with_ignored(targets, index):
    return targets.masked_fill(torch.arange(targets.numel()).view(targets.shape) % 3 == 1, index)


def test_train_step_gives_the_gradients_and_values_of_a_plain_loop():
    model, plain = LanguageModel(Bigram(4), vocabulary=LETTERS), Bigram(4)
    logits = plain(batch().inputs)
    expected = functional.cross_entropy(logits.view(50, 4), batch().targets.reshape(50))
    expected.backward()
    output = model.train_step(batch())
    assert torch.equal(output.item.loss, expected) and torch.equal(output.item.output, logits)
    assert torch.equal(output.item.targets, batch().targets) and output.weight == 50
    for name, parameter in plain.named_parameters():
        assert torch.equal(output.gradients[f"network.{name}"], parameter.grad)
    assert [name for name, p in model.named_parameters() if p.grad is not None] == []
    with inference.valid(model):
        assert torch.equal(model.valid_step(batch()).loss, expected)
    assert (
        isinstance(model, TrainStep) and isinstance(model, ValidStep) and isinstance(model, Shows)
    )


def test_neither_vocabulary_nor_loss_is_part_of_the_state():
    model = LanguageModel(Bigram(4), CrossEntropy([1.0, 2.0, 1.0, 1.0]), vocabulary=LETTERS)
    assert list(model.state_dict()) == [f"network.{name}" for name in Bigram(4).state_dict()]


@pytest.mark.parametrize(
    "loss",
    [None, CrossEntropy(ignored_index=-1), CrossEntropy([1, 2, 3, 1], 0.1, ignored_index=-1)],
)
def test_uneven_micro_batches_equal_one_batch_to_rounding(loss):
    model, accumulator = LanguageModel(Bigram(4), loss), GradientsAccumulator()
    targets = batch().targets if loss is None else with_ignored(batch().targets, -1)
    for x, y in zip(batch().inputs.split(SIZES), targets.split(SIZES), strict=True):
        output = model.train_step(Batch(x, y))
        assert output.weight == outputs.loss_weight(output.item)
        accumulator.add(output.gradients, output.weight)
    actual, whole = accumulator.mean(), model.train_step(Batch(batch().inputs, targets))
    for name, gradient in whole.gradients.items():
        # float32: sums of 50 terms of order 3, and a handful of roundings each to make a term
        torch.testing.assert_close(actual[name], gradient, rtol=0, atol=3 * 64 * 2**-24)


def test_the_bytes_that_targets_stand_for_are_counted():
    targets = torch.tensor([[3, 1, 0], [2, 3, 3]])
    tokens = Batch(targets, targets)
    ignoring = CrossEntropy(ignored_index=1)
    # é is two bytes of UTF-8
    assert LanguageModel(Bigram(4), vocabulary=LETTERS).predict(tokens).num_bytes == 9
    assert LanguageModel(Bigram(4), ignoring, vocabulary=LETTERS).predict(tokens).num_bytes == 8
    assert LanguageModel(Bigram(4), bytes_per_token=[5, 1, 1, 10]).predict(tokens).num_bytes == 37
    assert LanguageModel(Bigram(256)).predict(tokens).num_bytes == 6
    assert LanguageModel(Bigram(256), ignoring).predict(tokens).num_bytes == 5
    # the bytes of four tokens are unknown
    assert LanguageModel(Bigram(4)).predict(tokens).num_bytes is None


def test_targets_that_do_not_fit_are_reported_by_sample_and_place_or_shape():
    targets, model = batch().targets.clone(), LanguageModel(Bigram(4), vocabulary=LETTERS)
    targets[3, 2] = 4
    for wrong, words in (
        (targets, "sample 3 of the batch has target 4 at place 2; should be 0 to 3"),
        (batch(time=4).targets,
         "LanguageModel: the network gives [10, 5, 4] for targets [10, 4]; should"),
    ):  # fmt: skip
        given = Batch(batch().inputs, wrong)
        assert message_of(errors.DataError, model.predict, given).startswith(words)


def test_a_repeating_text_is_learned_and_continued(tmp_path):
    text = torch.tensor([*b"hot " * 60])
    rows = torch.stack([text[start : start + 9] for start in range(40)])
    model = LanguageModel(
        GPT(256, 8, layers=1, heads=2, dim=16), prompt="h", sample_length=11, temperature=0.1
    )
    train = data.DataLoader(
        data.ArrayDataset(rows[:, :-1], rows[:, 1:]), lambda raw, device: Batch(*raw), batch_size=7
    )
    builder = (
        LearnerBuilder(tmp_path).with_writers().metric_train_numeric(Loss()).metric_valid_numeric(
            Loss()
        ).options(num_epochs=20)
    )  # fmt: skip
    builder.build(model, Optimizer(torch.optim.Adam, model), 0.01).fit(train, train)
    with inference.valid(model):
        assert model.samples() == {"sample": "```text\nhot hot hot \n```"}
        assert model.valid_step(Batch(rows[:, :-1], rows[:, 1:])).loss < 0.1


def test_a_sample_repeats_whatever_was_drawn_meanwhile():
    model = LanguageModel(Bigram(4), vocabulary=LETTERS, prompt="ab", sample_length=30)
    first = model.samples()["sample"]
    torch.rand(7)
    assert model.samples()["sample"] == first
    assert first.startswith("```text\nab") and len(first) == len(
        "```text\n" + "ab" + 30 * "?" + "\n```"
    )


class Saying(nn.Module):
    """Continues everything with the same bytes."""

    def __init__(self, text):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.text, self.asked = text, None

    def generate(self, tokens, number, **settings):
        self.asked = (
            tokens.tolist(), number,
            {name: value for name, value in settings.items() if name != "generator"},
        )  # fmt: skip
        return torch.tensor([[*self.text]])


def test_the_network_is_asked_as_the_settings_say():
    network = Saying(b"!")
    LanguageModel(network, prompt="é", sample_length=3, temperature=0.5, top_k=9).samples()
    assert network.asked == ([[0xC3, 0xA9]], 3, {"temperature": 0.5, "top_k": 9})


def test_a_sample_is_shown_as_it_is_whatever_is_in_it():
    def shown(text):
        return LanguageModel(Saying(text), prompt="a").samples()["sample"]

    assert shown("né\tx\n".encode()) == "```text\nané\tx\n\n```"
    assert shown(b"\xc3(") == "```text\na\N{REPLACEMENT CHARACTER}(\n```"  # no UTF-8
    assert shown(b"\x00\x1b") == "```text\na\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\n```"
    assert shown(b"````") == "`````text\na````\n`````"


def test_what_cannot_be_generated_or_written_is_not_shown():
    assert LanguageModel(nn.Embedding(4, 4), vocabulary=LETTERS).samples() == {}
    assert LanguageModel(Bigram(4), bytes_per_token=[1, 1, 1, 2]).samples() == {}


@pytest.mark.parametrize(("settings", "words"), [
    ({"prompt": ""}, "^prompt: should have at least one character"),
    ({"prompt": "abc\x07"},
     r"^prompt='abc\\x07': the vocabulary has no '\\x07', 'c'; use characters that it has"),
    ({"top_k": 5}, "^top_k=5: should be between 1 and the 4 tokens there are, or null for all"),
    ({"top_k": 0}, "^top_k=0: should be between 1 and the 4 tokens"),
])  # fmt: skip
def test_settings_out_of_range_are_refused_before_anything_is_trained(settings, words):
    with pytest.raises(ValueError, match=words):
        LanguageModel(Bigram(4), vocabulary=LETTERS, **settings)


def test_perplexity_is_of_the_tokens_themselves_whatever_the_loss():
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    batch = Batch(torch.zeros(2, 3, dtype=torch.long), torch.tensor([[0, 1, 2], [3, 4, 0]]))
    network = nn.Module()
    network.forward = lambda tokens: logits
    plain, smoothed = (
        LanguageModel(network, CrossEntropy(label_smoothing=by), vocabulary="\nabcd")
        for by in (0.0, 0.2)
    )
    items = [model.predict(batch) for model in (plain, smoothed)]

    assert items[0].nll is None and items[1].loss != items[0].loss
    assert items[1].nll == items[0].loss


@pytest.mark.parametrize("vocabulary, prompt", [
    ([*"ACGT"], [0]), ([" ", "a"], [0]), (["\n", "a"], [0]), (["a", "\n"], [1]), (None, [10]),
])  # fmt: skip
def test_without_a_prompt_the_sample_starts_with_a_character_that_there_is(vocabulary, prompt):
    assert LanguageModel(nn.Embedding(256, 256), vocabulary=vocabulary).prompt == prompt
