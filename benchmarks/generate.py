"""Tokens per CPU second that the language model generates, with cached keys and values and without.

python benchmarks/generate.py [--rounds N] [--layers N] [--dim N] [--context N]
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

# a plain checkout needs no install
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch  # noqa: E402

import rounds  # noqa: E402
from andiron.models import GPT  # noqa: E402

VOCABULARY_SIZE, PROMPT_LENGTH = 256, 16


def tokens_per_cpu_second(model: GPT, number: int, *, is_cached: bool) -> float:
    """Measured while a prompt is continued by `number` tokens, drawn with one seed."""
    prompt = torch.arange(PROMPT_LENGTH)[None]
    generator = torch.Generator().manual_seed(0)
    start = time.process_time()
    model.generate(prompt, number, generator=generator, is_cached=is_cached)
    return number / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds (default: 5)")
    parser.add_argument("--layers", type=int, default=4, help="(default: 4)")
    parser.add_argument("--dim", type=int, default=128, help="(default: 128)")
    parser.add_argument("--context", type=int, default=256, help="tokens (default: 256)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = {"layers": arguments.layers, "dim": arguments.dim}
    model = GPT(VOCABULARY_SIZE, arguments.context, heads=4, **sizes)
    print(f"{rounds.machine(1)}; GPT of {sizes}, prompt {PROMPT_LENGTH}\n")
    filled = arguments.context - PROMPT_LENGTH
    for title, number in (("until the context is full", filled), ("twice as far", 2 * filled)):
        sides = {
            "without cache": partial(tokens_per_cpu_second, model, number, is_cached=False),
            "with cache": partial(tokens_per_cpu_second, model, number, is_cached=True),
        }
        print(f"tokens per CPU second, {number} tokens, {title}:\n")
        measured = rounds.interleaved(sides, arguments.rounds)
        print(rounds.compared(measured, unit="tokens per CPU second"), "\n")


if __name__ == "__main__":
    main()
