"""`andiron try`: trains an idea over seeds, keeps it if a metric improves, and writes both down."""

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Hashable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from statistics import fmean

from andiron import errors
from andiron.disk.append_only import AppendOnlyFile
from andiron.plain import wings
from andiron.plain.plain_values import strict_json
from andiron.plain.readable import number, printable
from andiron.run_folder import RunFolder
from andiron.shell.cli import answers
from andiron.shell.config import arguments as command_arguments, quoting
from andiron.shell.run import code_origin, provenance, run_record, status
from andiron.shell.training import train
from andiron.wings.commands import declaration
from andiron.wings.commands.answer_schemas import (
    COUNT, FLAG, NUMBER, TEXT, VALUE, by_name, closed, list_of, or_null,
)  # fmt: skip
from andiron.wings.commands.declaration import Command, with_overrides
from andiron.wings.runs.text_table import table
from andiron.wings.sweep import ledger
from andiron_lab.seeds import differences
from andiron_lab.seeds import idea_ledger
from andiron_lab.seeds.idea_ledger import Idea

FILE = "ideas.jsonl"
RULE = re.compile(r"(\S+) (rises|falls)|")
SENTENCE = re.compile(r"[^=]*\s.*|[^=]+")  # no override
TAKEN = ("seed", "objective", "sweep_name", "hydra.sweep.dir")
COLUMNS = ("idea", "kept", "reason", "options", "metric", "mean", "parent", "difference", "p")


def parent_of(
    ideas: Mapping[int, Idea], metric: str, sign: int, against: int | None
) -> Idea | None:
    """The idea `against`, or the best of those kept by the metric, which should rise (`sign` 1)
    or fall (-1).

    Raises: SelectionError if it is not among the ideas that have values of the metric.
    """
    known = {
        name: idea
        for name, idea in ideas.items()
        if idea["metric"] == metric and idea["mean"] is not None
    }
    if against is None:
        kept = [idea for idea in known.values() if idea["kept"]]
        return max(kept, key=lambda idea: sign * idea["mean"], default=None)
    if against not in known:
        numbers = ", ".join(map(str, known)) or "none"
        raise errors.SelectionError(f"--against {against}: no idea with {metric}; known: {numbers}")
    return known[against]


def decided(values: Mapping[Hashable, float], parent: Idea | None, sign: int) -> Idea:
    """The mean with its 95 % interval, the difference from a parent, and whether it is kept.

    It is kept if the difference is shown to be an improvement; without a parent if it has a mean.
    """
    mean = fmean(values.values())
    deviation, degrees = differences.noise([[*values.values()]])
    half = deviation * differences.t_limit(degrees) / math.sqrt(len(values)) if degrees else None
    facts: Idea = {"mean": mean, "half_interval": half, "kept": math.isfinite(mean)}
    if parent is None:
        return facts
    result = differences.by_seed(parent["values"], values)
    is_better = result.is_shown and sign * result.value > 0
    known = {"interval": result.interval, "p": result.p, "seeds_needed": result.seeds_needed()}
    return facts | {
        "parent": parent["idea"], "difference": result.value, **known, "kept": is_better
    }  # fmt: skip


def apply(name: int, ideas: Mapping[int, Idea]) -> None:
    """Applies the patches of an idea to the working tree, all or none, and answers with them.

    Raises: SelectionError for no idea, no patches, or a repository other than the working folder's
    and Andiron's; DataError for a changed patch; RunFolderError for one that does not apply.
    """
    if (idea := ideas.get(name)) is None:
        raise errors.SelectionError(f"--apply {name}: no such idea")
    code, _ = code_origin.gather()
    here = [
        repository["root"] for repository in (code["git"], *code["projects"].values()) if repository
    ]
    changed = [repository for repository in idea["code"] if repository["uncommitted"]]
    elsewhere = [repository["root"] for repository in changed if repository["root"] not in here]
    if elsewhere or not changed:
        why = f"is in {elsewhere}; start the command there" if elsewhere else "has no changes"
        raise errors.SelectionError(f"--apply {name}: the code of this idea {why}")
    applied = [
        {"patch": patch, "root": repository["root"], "revision": repository["revision"]}
        for repository, patch in zip(changed, idea["patches"], strict=True)
    ]
    for mode in ("--check", "--verbose"):
        for patch, root, revision in map(dict.values, applied):
            run_record.check(RunFolder(Path(patch).parent), Path(patch))
            command = ["git", "-C", root, "apply", mode, patch]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                raise errors.RunFolderError(
                    f"{patch}: does not apply to {root} ({' '.join(ended.stderr.split())}); "
                    f"stash your changes of these files, or check out {revision}"
                )
    if not answers.give({"applied": applied}):
        for repository in applied:
            print(printable("applied {patch} to {root}, made at {revision}".format(**repository)))


def _run(options: argparse.Namespace) -> None:
    overrides = options.overrides
    path = options.ideas.absolute() / FILE
    ideas = idea_ledger.read(path)
    if options.list:
        if not answers.give({"ideas": [*ideas.values()]}):
            print(table(COLUMNS, [[*map(idea.get, COLUMNS)] for idea in ideas.values()]))
        return
    if options.apply is not None:
        apply(options.apply, ideas)
        return
    rule = RULE.fullmatch(options.keep_if)
    wrong = [text for text in overrides if not _is_one(text)]
    problems = [f"{text}: an idea has one configuration; --seeds gives its seeds" for text in wrong]
    if not rule:
        problems.append(f"--keep-if={options.keep_if}: no rule; give one as 'valid/loss falls'")
    if not SENTENCE.fullmatch(options.reason):
        problems.append("an idea needs a reason, before its overrides: what is tried, and why")
    if problems or rule is None:
        raise errors.ConfigError(problems)
    command_arguments.in_order(overrides)  # a flag that is none leaves no folder of ideas
    metric, sign = rule[1], -1 if rule[2] == "falls" else 1
    parent = parent_of(ideas, metric, sign, options.against) if metric else None
    differences.library()
    with closing(idea_ledger.opened(path)) as book:  # before anything is trained
        rule_of = metric, sign, parent
        failed = _train_idea(book, path.parent, options, rule_of)
    if failed is not None:
        raise failed


def _train_idea(
    book: AppendOnlyFile,
    ideas: Path,
    options: argparse.Namespace,
    rule: tuple[str, int, Idea | None],
) -> errors.SweepError | None:
    """Trains an idea and writes it down; returns the error of its jobs.

    `rule` is the metric, 1 if it should rise or -1, and the idea to compare with.
    """
    metric, sign, parent = rule
    folder = idea_ledger.new_folder(ideas, idea_ledger.read(ideas / FILE))
    seeds = [f"seed=range(0,{options.seeds})", quoting.override("hydra.sweep.dir", folder)]
    given = [*options.overrides, *([f"objective={metric}"] if metric else []), *seeds]
    failed = _train(given, folder)
    if result := _result(folder):
        facts = {"idea": int(folder.name), "at": status.now(), "reason": options.reason,
                 "folder": str(folder)}  # fmt: skip
        decision = decided(result["values"], parent, sign)
        _record(book, {**facts, "options": options.overrides, **result, **decision})
    return failed


def _train(given: list[str], folder: Path) -> errors.SweepError | None:
    """Trains the sweep of an idea; returns the error of its jobs, with which it is discarded."""
    script = sys.argv[0].removesuffix(" try")
    sys.argv = [script, "-m", *given]
    try:
        with answers.given_to(None):
            train.run()
    except errors.SweepError as error:
        return error
    except errors.Interrupted as error:
        error.add(f"{folder} keeps its runs; the same command tries the idea anew")
        raise
    finally:
        with suppress(OSError):  # it has runs
            folder.rmdir()
    return None


def _parser() -> declaration.Parser:
    parser = declaration.Parser(
        description="Train an idea with the working tree as it is, and write it down. Other "
        "arguments are overrides, as for train.py.",
        allow_abbrev=False,
    )
    parser.add_argument("reason", nargs="?", default="", help="what is tried, and why")
    parser.add_argument("--seeds", type=declaration.count, default=3, help="number of seeds")
    rises = "keep it only if this is shown: 'valid/accuracy rises', 'valid/loss falls'"
    parser.add_argument("--keep-if", default="", help=rises)
    against = "number of the idea to compare with; default: the best that was kept"
    parser.add_argument("--against", type=int, help=against)
    about = "apply the uncommitted changes of this idea to the working tree"
    parser.add_argument("--apply", type=int, metavar="IDEA", help=about)
    parser.add_argument("--list", action="store_true", help="show the ledger of ideas")
    parser.add_argument("--ideas", type=Path, default=Path("outputs/ideas"), help="its folder")
    return parser


def _is_one(text: str) -> bool:
    """Whether an argument is an override with one value that is not taken, or a flag."""
    override = command_arguments.parsed_override(text)
    is_sweep = override is not None and override.is_sweep_override()
    is_flag = text in ("-m", "--multirun")
    return not (is_sweep or is_flag) and text.lstrip("+").partition("=")[0] not in TAKEN


def _result(folder: Path) -> Idea | None:
    """The objective by seed, NaN where there is none, and the code; None if no run began."""
    sweep = ledger.read(folder)
    jobs = list(sweep.jobs.values())
    runs = [run for job in jobs if (run := sweep.run_of(job))]
    if not runs:
        return None
    origin = provenance.read(runs[0])
    values = {
        text: math.nan if job.objective is None else job.objective
        for job in jobs
        for text in {*job.overrides}.difference(ledger.configuration(job))
    }
    code = [code for code in [origin["git"], *origin["projects"].values()] if code]
    patches = [
        runs[0].path / repository["uncommitted"] for repository in code if repository["uncommitted"]
    ]
    return {"metric": sweep.facts.get("objective"), "values": values, "code": code,
            "patches": [*map(str, patches)]}  # fmt: skip


def _record(book: AppendOnlyFile, idea: Idea) -> None:
    """Adds an idea to the ledger, and prints it with the decision.

    Raises: OutputError if the line could not be written.
    """
    book.append(f"{strict_json(idea)}\n".encode())
    if lost := book.close():
        raise errors.OutputError(f"{lost} are lost; free some space, and try the idea again")
    if answers.give({"idea": idea}):
        return
    half = "" if idea["half_interval"] is None else f" ± {number(idea['half_interval'])} (95 %)"
    verdict = "kept" if idea["kept"] else "discarded"
    print(f"idea {idea['idea']} is {verdict}: {idea['metric']} {number(idea['mean'])}{half}")
    if "parent" in idea:
        is_open = idea["p"] > differences.ALPHA and idea["seeds_needed"]
        more = f", {idea['seeds_needed']} seeds would show it" if is_open else ""
        difference = number(idea["difference"])
        print(f"{difference} from idea {idea['parent']}, p = {idea['p']:.2g}{more}")
    for patch in idea["patches"]:
        again = wings.command(f"try --apply {idea['idea']}")
        print(printable(f"its code: {patch}; {again} applies it again"))


IDEA = closed({
    "idea": COUNT, "at": TEXT, "reason": TEXT, "options": list_of(TEXT), "metric": or_null(TEXT),
    "values": by_name(VALUE), "code": list_of(by_name()), "patches": list_of(TEXT), "mean": VALUE,
    "half_interval": VALUE, "kept": FLAG, "folder": TEXT, "parent": COUNT, "difference": VALUE,
    "interval": or_null(list_of(NUMBER)), "p": NUMBER, "seeds_needed": or_null(COUNT),
}, "folder", "parent", "difference", "interval", "p", "seeds_needed")  # fmt: skip
ANSWERS = [closed({"idea": IDEA}), closed({"ideas": list_of(IDEA)}), closed({
    "applied": list_of(closed({"patch": TEXT, "root": TEXT, "revision": TEXT})),
})]  # fmt: skip
main = Command(_parser, ANSWERS, _run, page="ideas.md", parse=with_overrides, trains=True)
