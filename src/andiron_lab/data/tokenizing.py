"""`andiron tokenize`: texts as shards of tokens."""

import argparse
from pathlib import Path

from andiron import errors
from andiron.plain.readable import joined, printable
from andiron.shell.cli import answers
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import COUNT, TEXT, closed, or_null
from andiron.wings.commands.declaration import Command


def _parser() -> argparse.ArgumentParser:
    parser = declaration.Parser(
        description="Write texts as shards of tokens, for data=token_shards."
    )
    holds = "texts, or .jsonl files with a document in each line"
    parser.add_argument("sources", type=Path, nargs="*", metavar="FILE", help=holds)
    tokenizer = "a tokenizer.json, a folder with one, or a name on the Hugging Face Hub"
    parser.add_argument("--tokenizer", metavar="NAME", help=tokenizer)
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="the new folder to write")
    end = "the token after each document (default: the tokenizer's end of text)"
    parser.add_argument("--end", metavar="TOKEN", help=end)
    text = "the field of a line of JSON that has the text (default: text)"
    parser.add_argument("--field", default="text", metavar="NAME", help=text)
    separator = "what stands between the documents of a text; without it a file is a document"
    parser.add_argument("--separator", metavar="TEXT", help=separator)
    check = "read a folder and compare it with the checksums of its manifest"
    parser.add_argument("--check", type=Path, metavar="FOLDER", help=check)
    return parser


def _run(options: argparse.Namespace) -> None:
    from andiron_lab.data import shard_files, shard_writing  # import torch

    if options.check is not None:
        number = shard_files.check_checksums(options.check)
        manifest, _ = shard_files.read_manifest(options.check)
        folder, did = options.check, f"{number} files are as recorded"
    else:
        if not options.sources or options.tokenizer is None or options.to is None:
            raise errors.SelectionError("give FILE..., --tokenizer NAME and --to FOLDER")
        folder, settings = options.to, ("end", "field", "separator")
        given = {name: vars(options)[name] for name in settings}
        manifest = shard_writing.tokenize(options.sources, options.tokenizer, folder, **given)
        did = f"{len(manifest.shards)} shards of {manifest.dtype}"
    tokens = sum(entry.num_tokens for entry in manifest.shards)
    documents = sum(entry.num_documents for entry in manifest.shards)
    if documents > 1 and manifest.end is None:
        did += "; no token ends a document: --end names one of the tokenizer"
    whole = [source["path"] for source in manifest.sources if source.get("documents") == 1]
    if options.separator and whole:
        did += f"; one document, without a separator: {joined(whole)}"
    answer = {
        "folder": str(folder), "tokens": tokens, "documents": documents,
        "shards": len(manifest.shards), "vocabulary_size": manifest.vocabulary_size,
        "end": manifest.end,
    }  # fmt: skip
    if not answers.give(answer):
        print(printable(f"{folder}: {tokens:,} tokens in {documents:,} documents; {did}"))


ANSWERS = [closed({
    "folder": TEXT, "tokens": COUNT, "documents": COUNT, "shards": COUNT,
    "vocabulary_size": COUNT, "end": or_null(COUNT),
})]  # fmt: skip
main = Command(_parser, ANSWERS, _run, page="beyond_memory.md")
