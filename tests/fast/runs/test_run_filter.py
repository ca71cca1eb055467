"""Comparisons that filter runs."""

import pytest

from andiron import errors
from andiron.wings.runs.run_values import chosen
from andiron.wings.runs.run_values import best_first, differing
from andiron.wings.runs.untrusted_files import Standing
from refusals import message_of
from seed_runs import run_with


def run(name, *, accuracy=None, status="done", **options):
    metrics = {} if accuracy is None else {"valid/accuracy": Standing(accuracy / 2, 2, accuracy, 1)}
    return run_with(
        name,
        facts={"status": status, "started": f"2026-11-2{name}T07:00:00+00:00"},
        options={option.replace("__", "."): value for option, value in options.items()},
        metrics=metrics, directions={"accuracy": "highest"},
    )  # fmt: skip


RUNS = [
    run("0", lr=0.1, optimizer="SGD", optimizer__momentum=0.9, model__hidden=[8], accuracy=0.5),
    run("1", lr=0.01, optimizer="Adam", optimizer__betas=[0.9, 0.999], model__hidden=[8, 16]),
    run("2", lr=0.01, optimizer="AdamWScheduleFree", clip=None, status="failed", accuracy=0.75),
]


@pytest.mark.parametrize(
    ("comparisons", "names"),
    [
        ((), "012"),
        (["lr<1e-1"], "12"),
        (["lr <= 0.1", "optimizer=adam"], "1"),
        (["lr==0.01", "status!=done", "lr=.01"], "2"),
        (["lr!=0.01"], "0"),
        (["optimizer=adamw_schedule_free"], "2"),
        (["momentum=0.9"], "0"),
        (["momentum!=0.9"], "12"),
        (["momentum<1"], "0"),
        (["momentum!=null"], "0"),
        (["clip=null"], "012"),
        (["hidden=[8]"], "0"),
        (["hidden=[8, 16]"], "1"),
        (["valid/accuracy>=0.5"], "02"),
        (["accuracy.last<0.3"], "0"),
        (["started>2026-11-21T06"], "12"),
        (["optimizer>a"], ""),  # in the order of characters, capitals first
        (["optimizer<5"], ""),
        (["lr<nan"], ""),
    ],
)
def test_the_runs_for_which_all_comparisons_hold_are_chosen(comparisons, names):
    assert "".join(str(run.path) for run in chosen(RUNS, comparisons)) == names


@pytest.mark.parametrize(("comparison", "words"), [
    ("lrr=1", "lrr: no run here has it; did you mean lr"),
    ("hiden=1", "did you mean model.hidden"),
    ("learning=1", "no run here has it"),
    ("lr", "--where 'lr': is not one comparison; write a name, =, ==, !=, <, <=, >, >=, and"),
    ("lr<", "is not one comparison"),
    ("<1", "is not one comparison"),
    ("lr==", "is not one comparison"),
    ("lr=<1", "is not one comparison"),
    ("lr=1 lr=2", "is not one comparison"),
    ("lr=1 and seed=2", "--where 'lr<1e-2'; repeat it for more"),
    ("lr=1 and", "lr is a number, but '1 and' is not"),
    ("(lr=1", "no run here has it"),
    ("not lr=1", "no run here has it"),
    ("lr<abc", "lr is a number, but 'abc' is not"),
    ("lr='1'", "is not; write a name"),
    ("!lr", "is not one comparison"),
    ("__import__('os').system('x')=1", "no run here has it"),
])  # fmt: skip
def test_a_comparison_that_cannot_be_read_says_why(comparison, words):
    assert words in message_of(errors.SelectionError, chosen, RUNS, [comparison])


def test_a_name_with_several_meanings_is_not_guessed():
    runs = [run("0", model__dropout=0.1, loss__dropout=0.2)]
    with pytest.raises(errors.SelectionError, match="give one of model.dropout, loss.dropout"):
        chosen(runs, ["dropout=0.1"])


def test_the_options_that_differ_leave_out_arguments_of_other_classes():
    assert differing(RUNS) == ["lr", "optimizer", "model.hidden"]
    assert differing([run("0", clip=None), run("1", clip__norm=1.0)]) == ["clip.norm"]
    assert differing(RUNS[:1]) == []


def test_the_best_comes_first_and_what_has_no_value_last():
    assert [str(value.path) for value in best_first(RUNS, "valid/accuracy")] == ["2", "0", "1"]
    assert [str(value.path) for value in best_first(RUNS, "lr")] == ["1", "2", "0"]
    nan = run("3", accuracy=float("nan"))
    assert best_first([nan, *RUNS], "valid/accuracy")[-2:] == [nan, RUNS[1]]
    without = run_with("4", facts={}, metrics={"valid/f1": Standing(0.5, 1, 0.5, 1)})
    with pytest.raises(errors.SelectionError, match="give --direction highest or lowest"):
        best_first([without], "valid/f1")
