"""Conditions over runs, on runs written out here."""

from pathlib import Path

import pytest

from andiron import errors
from andiron.comparison.recorded_run import Run, Standing
from andiron.comparison.run_filter import chosen
from andiron.comparison.run_values import best_first, differing
from andiron.run_folder import RunFolder


def run(name, *, accuracy=None, status="done", nodes=("optimizer", "model"), **options):
    metrics = {} if accuracy is None else {"valid/accuracy": Standing(accuracy / 2, 2, accuracy, 1)}
    return Run(
        RunFolder(Path(name)),
        {"status": status, "started": f"2026-11-2{name}T07:00:00+00:00"},
        {option.replace("__", "."): value for option, value in options.items()},
        frozenset(nodes),
        metrics,
        {"accuracy": "highest"},
    )


RUNS = [
    run("0", lr=0.1, optimizer="SGD", optimizer__momentum=0.9, model__hidden=[8], accuracy=0.5),
    run("1", lr=0.01, optimizer="Adam", optimizer__betas=[0.9, 0.999], model__hidden=[8, 16]),
    run("2", lr=0.01, optimizer="AdamWScheduleFree", clip=None, status="failed", accuracy=0.75),
]


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("lr<1e-1", "12"),
        ("lr <= 0.1 and optimizer=adam", "1"),
        ("lr==0.01 AND status!=done and lr=.01", "2"),
        ("lr!=0.01", "0"),
        ("optimizer=adamw_schedule_free", "2"),
        ("momentum=0.9", "0"),
        ("momentum!=0.9", "12"),
        ("momentum<1", "0"),
        ("clip=null", "012"),
        ("hidden=[8]", "0"),
        ("hidden='[8, 16]'", "1"),
        ("valid/accuracy>=0.5", "02"),
        ("accuracy.last<0.3", "0"),
        ("'valid/accuracy' > 0.6", "2"),
        ("started>2026-11-21T06", "12"),
        ("optimizer>a", ""),  # in the order of characters, capitals first
        ("lr<nan", ""),
    ],
)
def test_a_condition_chooses(condition, names):
    assert "".join(str(run.path) for run in chosen(RUNS, condition)) == names


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("lrr=1", "lrr: no run here has it; did you mean lr"),
        ("hiden=1", "did you mean model.hidden"),
        ("learning=1", "no run here has it"),
        ("lr", "cannot be read at 'lr'; write it as 'lr<1e-2 and optimizer=adam'"),
        ("lr<", "cannot be read at 'lr<'"),
        ("lr=1 lr=2", "cannot be read at 'lr=1 lr=2'"),
        ("lr=1 or lr=2", "cannot be read at 'lr=1 or lr=2'"),
        ("lr=1 and", "cannot be read at 'lr=1 and'"),
        ("lr==", "cannot be read at 'lr=='"),
        ("lr=<1", "cannot be read at 'lr=<1'"),
        ("(lr=1", "no run here has it"),
        ("not lr=1", "cannot be read at 'not lr=1'"),
        ("and lr=1", "cannot be read at 'and lr=1'"),
        ("lr<abc", "lr is a number, but 'abc' is not"),
        ("lr='a", "cannot be read at"),
        ("!lr", "cannot be read at '!lr'"),
        ("__import__('os').system('x')=1", "cannot be read at"),
    ],
)
def test_a_condition_that_cannot_be_read_says_why(condition, words):
    with pytest.raises(errors.SelectionError) as refused:
        chosen(RUNS, condition)
    assert words in str(refused.value)


def test_a_name_with_several_meanings_is_not_guessed():
    runs = [run("0", model__dropout=0.1, loss__dropout=0.2)]
    with pytest.raises(errors.SelectionError, match="give one of model.dropout, loss.dropout"):
        chosen(runs, "dropout=0.1")


def test_the_options_that_differ_leave_out_arguments_of_other_classes():
    assert differing(RUNS) == ["lr", "optimizer", "model.hidden"]
    assert differing([run("0", clip=None), run("1", clip__norm=1.0)]) == ["clip.norm"]
    assert differing(RUNS[:1]) == []


def test_the_best_comes_first_and_what_has_no_value_last():
    assert [str(each.path) for each in best_first(RUNS, "valid/accuracy")] == ["2", "0", "1"]
    assert [str(each.path) for each in best_first(RUNS, "lr")] == ["1", "2", "0"]
    nan = run("3", accuracy=float("nan"))
    assert best_first([nan, *RUNS], "valid/accuracy")[-2:] == [nan, RUNS[1]]
    without = Run(RunFolder(Path("4")), {}, metrics={"valid/f1": Standing(0.5, 1, 0.5, 1)})
    with pytest.raises(errors.SelectionError, match="give --direction highest or lowest"):
        best_first([without], "valid/f1")
