"""Language modelling: the steps around a network that predicts the next token.

>>> import torch
>>> from andiron.data import Batch
>>> network = torch.nn.Embedding(256, 256)  # logits of the next byte from this byte alone
>>> tokens = torch.tensor([[*b"to be"]])
>>> LanguageModel(network).valid_step(Batch(tokens[:, :-1], tokens[:, 1:])).num_bytes
4
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from andiron import randomness
from andiron.data.dataset import Batch
from andiron.outputs import IGNORED, Scalar, SequenceOutput
from andiron.plain.markdown import fenced
from andiron.plain.token_texts import BYTES, Vocabulary, decoded, encoded, start_of
from andiron.ranges import Count, NonNegative
from andiron.recording import keep_arguments
from andiron.tasks import criterion, named_answers, target_checks as checks
from andiron.tasks.named_answers import Facts, Fields
from andiron.tasks.classifier import CrossEntropy
from andiron.tasks.criterion import Criterion, Loss, Supervised
from andiron.tasks.loss_settings import total_weight


@keep_arguments
class LanguageModel(Supervised):
    """A language model with `network`, from tokens [batch time] to logits [batch time classes].

    `vocabulary` is the text of each token; without one a token is a byte. `bytes_per_token` is the
    number of bytes of each token, by default its length in UTF-8. They and the loss are not part
    of `state_dict()`. `samples` continues `prompt`, by default `start_of(vocabulary)`, by
    `sample_length` tokens, if the network has
    `generate(tokens, number, temperature=..., top_k=..., generator=...)`.
    Raises: ValueError for a prompt outside the vocabulary, or a `top_k` above its size.
    """

    bytes_per_token: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        loss: Loss | None = None,
        *,
        vocabulary: Vocabulary = None,
        bytes_per_token: Sequence[int] | None = None,
        prompt: Annotated[str, Field(min_length=1)] | None = None,
        sample_length: Count = 200,
        temperature: NonNegative = 1.0,
        top_k: Count | None = None,
    ):
        super().__init__(network, Criterion(loss or CrossEntropy()))
        self.vocabulary = vocabulary
        self.prompt = encoded(start_of(vocabulary) if prompt is None else prompt, vocabulary)
        self.sample_length = sample_length
        self.settings = {"temperature": temperature, "top_k": top_k}
        num_tokens = BYTES if vocabulary is None else len(vocabulary)
        if top_k is not None and not 1 <= top_k <= num_tokens:
            raise ValueError(
                f"top_k={top_k}: should be between 1 and the {num_tokens} tokens there are, or "
                "null for all"
            )
        if bytes_per_token is None and vocabulary is not None:
            bytes_per_token = [len(token.encode()) for token in vocabulary]
        table = None if bytes_per_token is None else torch.tensor([*bytes_per_token])
        self.register_buffer("bytes_per_token", table, persistent=False)

    def predict(self, batch: Batch) -> SequenceOutput:
        """The mean loss over the tokens, and the logits of one batch.

        Raises: DataError if the shapes do not fit or, on a CPU, a target is not one of the tokens.
        """
        logits, targets = self(batch.inputs), criterion.as_int64(batch.targets)
        if logits.dim() != 3 or logits.shape[:2] != targets.shape:
            remedy = "should be [batch, time, classes] for targets [batch, time]"
            raise checks.misfit(self, logits, targets, remedy)
        flat, marked = logits.flatten(0, 1), self.loss.marked(targets)
        loss = self.loss(flat, targets.flatten(), batch_targets=targets)
        nll = nll_beside(self.loss, logits, marked)
        weight, num_bytes = self.loss.weight(targets, marked), self._num_bytes(logits, marked)
        has_ignored = self.loss.has_ignored
        return SequenceOutput(loss, logits, marked, weight, has_ignored, num_bytes, nll)

    def answers(self, outputs: Tensor, facts: Facts) -> Iterable[Fields]:
        """The token after the last one of each sample."""
        tokens = self.vocabulary or [*map(_byte, range(outputs.shape[-1]))]
        return named_answers.likeliest(outputs[:, -1], tokens)

    def target_text(self, target: Tensor, facts: Facts) -> str:
        """The last token of one sample that counts."""
        return decoded(target[target != IGNORED][-1:].tolist(), self.vocabulary)

    def samples(self) -> dict[str, str | Tensor]:
        """`sample`: the prompt and its continuation, sampled with the same seed every time.

        Empty for a network without `generate`, or if the text of the tokens is unknown.
        """
        if not self.has_text or not self.has_generate:
            return {}
        seed, settings = randomness.derive(0, "sample"), self.settings
        tokens = self.continued(self.prompt, self.sample_length, seed, **settings)
        text = decoded([*self.prompt, *tokens], self.vocabulary)
        shown = "".join(
            letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
            for letter in text
        )
        return {"sample": fenced(shown, "text")}

    @property
    def has_text(self) -> bool:
        """Whether the text of the tokens is known."""
        return self.vocabulary is not None or self.bytes_per_token is None

    @property
    def has_generate(self) -> bool:
        """Whether the network has a method `generate`."""
        return getattr(self.network, "generate", None) is not None

    def continued(
        self, prompt: Sequence[int], number: int, seed: int, **settings: float | None
    ) -> Iterator[int]:
        """The next `number` tokens, sampled by the network with `settings` and its own seed.

        One after the other if the network can `stream` them, else all at once.
        """
        device, network = next(self.network.parameters()).device, self.network
        generator = torch.Generator(device=device).manual_seed(seed)
        draw: Any = getattr(network, "stream", network.generate)
        start = torch.tensor([[*prompt]], device=device)
        drawn = draw(start, number, generator=generator, **settings)
        for tokens in [drawn] if isinstance(drawn, Tensor) else drawn:
            yield from tokens[0].tolist()

    def _num_bytes(self, logits: Tensor, targets: Tensor) -> Tensor | int | None:
        """The number of bytes of the targets; None without a vocabulary and 256 classes."""
        has_ignored = self.loss.has_ignored
        if self.bytes_per_token is not None:
            ignored_index = IGNORED if has_ignored else None
            return total_weight(self.bytes_per_token, targets, ignored_index)
        if logits.shape[-1] != BYTES:
            return None
        return (targets != IGNORED).sum() if has_ignored else targets.numel()


def nll_beside(loss: Criterion, logits: Tensor, targets: Tensor) -> Scalar | None:
    """The mean of -log p over the targets that count, for perplexity; None if it is the loss."""
    if loss.is_nll:
        return None
    with torch.no_grad():
        flat = logits.flatten(0, -2), targets.flatten()
        return functional.cross_entropy(*flat, ignore_index=IGNORED)


def _byte(token: int) -> str:
    return chr(token) if token < 128 else f"\\x{token:02x}"
