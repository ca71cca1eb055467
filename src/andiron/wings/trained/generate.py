"""Generates text with a trained language model, printed while it is sampled."""

import argparse

from andiron import errors
from andiron.plain import readable
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, NUMBER, TEXT, closed, or_null
from andiron.wings.commands.declaration import Command
from andiron.wings.trained import run_arguments


@errors.exits_refused()
def generate(options: argparse.Namespace) -> None:
    """Prints the prompt and its continuation, or both as one JSON object.

    Raises: AndironError if the run cannot be loaded, or cannot continue the prompt.
    """
    run = run_arguments.loaded(options)
    from andiron.wings.trained import text_generation

    prompt = options.prompt
    if prompt is None:
        prompt = text_generation.usual_prompt(run.model)
    settings = {name: vars(options)[name] for name in ("temperature", "top_k", "seed")}
    pieces = text_generation.pieces(run.model, prompt, options.length, **settings)
    if answers.are_asked():
        head = {"run": str(run.folder.path), "weights": run.weights, "prompt": prompt}
        answers.give({**head, "text": "".join(pieces), "length": options.length, **settings})
        return
    for number, piece in enumerate(pieces):
        if number == 0:  # the prompt was accepted
            print(readable.printable(prompt), end="")
        print(readable.printable(piece), end="", flush=True)
    print()


def _parser() -> argparse.ArgumentParser:
    parser = run_arguments.parser("Continue a text with a trained language model.")
    prompt = "the text to continue, by default a line break if the text had any"
    parser.add_argument("--prompt", metavar="TEXT", help=prompt)
    length = "number of tokens to sample (default: 200)"
    parser.add_argument("--length", type=declaration.count, default=200, metavar="N", help=length)
    temperature = "of the softmax; 0 takes the most likely token (default: 1)"
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T", help=temperature)
    top_k = "sample only from the K most likely tokens"
    parser.add_argument("--top-k", type=declaration.count, metavar="K", help=top_k)
    seed = "seed of the sampling (default: 0)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=seed)
    run_arguments.add_device(parser)
    return parser


ANSWERS = [closed({
    "run": TEXT, "weights": TEXT, "prompt": TEXT, "text": TEXT, "length": COUNT,
    "temperature": NUMBER, "top_k": or_null(COUNT), "seed": COUNT,
})]  # fmt: skip
main = Command(_parser, ANSWERS, generate, page="text.md", interrupted="\ninterrupted")
