"""Text from a language model: the tokens of its network, as text, piece by piece."""

import pytest
import torch
from torch import nn

from andiron import errors
from andiron.models import GPT
from andiron.tasks import Classifier, LanguageModel
from andiron.wings.trained import text_generation
from refusals import message_of


class Saying(nn.Module):
    """A network that says these tokens, whatever comes before."""

    def __init__(self, tokens):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.tokens = tokens

    def generate(self, tokens, number, *, temperature, top_k, generator):
        return torch.tensor([self.tokens[:number]])


def text(model, prompt, length, **settings):
    return "".join(text_generation.pieces(model, prompt, length, **settings))


def gpt(size=256, **settings):
    torch.manual_seed(0)
    return LanguageModel(GPT(size, 8, layers=1, heads=2, dim=8), **settings)


def test_the_text_is_that_of_the_tokens_of_generate():
    model = gpt(3, vocabulary=["a", "b", "é"], prompt="a")
    settings = {"temperature": 0.7, "top_k": 2}
    generator = torch.Generator().manual_seed(5)
    tokens = model.network.generate(torch.tensor([[2, 0]]), 20, generator=generator, **settings)

    result = text(model, "éa", 20, seed=5, **settings)
    assert result == "".join("abé"[token] for token in tokens[0])


def test_a_character_of_several_bytes_comes_whole_and_others_are_replaced():
    said = [*"é€".encode(), 0xFF, *b"a", *"é".encode()[:1]]
    result = [*text_generation.pieces(LanguageModel(Saying(said)), "x", len(said))]
    assert result == ["", "é", "", "", "€", "\ufffd", "a", "", "\ufffd"]


@pytest.mark.parametrize("seed", [10**21, -(10**21), 2**64])
def test_a_seed_of_more_than_64_bits_is_refused(seed):
    with pytest.raises(errors.DataError) as error:
        text(gpt(), "a", 1, seed=seed)
    assert str(error.value) == f"seed={seed}: should be a whole number of 64 bits"


@pytest.mark.parametrize(("model", "prompt", "message"), [
    (gpt(3, vocabulary=["a", "b", "é"], prompt="a"), "aZ\n",
     "prompt='aZ\\n': the vocabulary has no '\\n', 'Z'; use characters that it has"),
    (gpt(), "", "prompt: should have at least one character, such as a line break"),
    (gpt(9, bytes_per_token=[1] * 9), "a",
     "the data did not give the text of its tokens, only their lengths"),
    (LanguageModel(Saying([300])), "a", "token 300 was drawn, and 256 tokens have a known text"),
    (LanguageModel(nn.Linear(2, 2)), "a",
     "Linear has no generate(tokens, number, ...); add one, as andiron.models.GPT has"),
    (Classifier(nn.Linear(2, 2)), "a",
     "Classifier generates no text; choose a run with task=language_model"),
])  # fmt: skip
def test_what_generates_no_text_is_refused(model, prompt, message):
    assert message_of(errors.DataError, text, model, prompt, 1) == message
