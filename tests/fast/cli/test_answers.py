"""The seam of `--json`: objects on one stream, and errors whose fields a program can use."""

import io
import json

import pytest
from in_process import called

from andiron import errors
from andiron.errors import Problem
from andiron.shell.cli import answers, process
from andiron.shell.training import train
from andiron.wings.commands import error_answer


def problems_of(error, *given):
    """The problems in the answer of a command with these arguments that ends with the error."""
    return error_answer.error_object(error, str(error), 2, given)["error"]["problems"]


def test_a_value_that_is_not_finite_is_null_and_silenced_answers_are_not_printed():
    output = io.StringIO()
    with answers.given_to(output):
        assert answers.give({"loss": float("nan")})
        with answers.given_to(None):
            assert not answers.give({"loss": 1})
    assert output.getvalue() == '{"loss": null}\n' and not answers.give({})


def test_whatever_else_is_printed_goes_to_standard_error():
    @process.command
    def main():
        print("a note")
        answers.give({"rows": 3})
        return 0

    ended = called(main, "--json")
    assert (ended.output, ended.errors) == ('{"rows": 3}\n', "a note\n")
    ended = called(main)
    assert (ended.output, ended.errors) == ("a note\n", "")


def test_an_error_of_the_code_is_an_answer_too():
    @process.command
    def main():
        raise ZeroDivisionError("none left")

    ended = called(main, "--json")
    error = json.loads(ended.output)["error"]
    assert (error["kind"], error["exit_code"], ended.code) == ("ZeroDivisionError", 1, 1)
    assert "Traceback" in ended.errors
    with pytest.raises(ZeroDivisionError):
        called(main)


def test_a_problem_has_the_nearest_name_and_the_argument_that_it_replaces():
    option = {"kind": "unknown_option", "option": "a.hiden", "nearest": "a.hidden"}
    choice = {"kind": "unknown_choice", "option": "a", "value": "cnvnet", "nearest": "convnet"}
    lines = [Problem("a.hiden: no such option", **option), Problem("a=cnvnet: no", **choice)]
    fields = problems_of(errors.ConfigError(lines), "a=mlp,cnvnet", "+a.hiden=3", "--json")
    names = "option", "value", "nearest"
    assert [[problem[name] for name in names] for problem in fields] == [
        ["a.hiden", "3", "a.hidden"], ["a", "cnvnet", "convnet"],
    ]  # fmt: skip


@pytest.mark.parametrize(("line", "given", "fields"), [
    ("/x/no.csv: no such file", ["data.path=no.csv"], ("missing_path", "data.path", "no.csv")),
    ("device=cuda: there is none", ["device=cuda"], ("invalid_value", "device", "cuda")),
    ("/x/out: is a link", ["--json", "run", "--output", "out"],
     ("invalid_value", "--output", "out")),
    ("/no/run: holds no run", ["--json", "/no/run"], ("missing_path", None, "/no/run")),
])  # fmt: skip
def test_the_option_of_a_line_is_the_argument_that_it_names(line, given, fields):
    (problem,) = problems_of(errors.DataError(line), *given)
    assert (problem["kind"], problem["option"], problem["value"]) == fields


def test_a_mistyped_configuration_is_mended_by_its_fields_alone(tmp_path):
    given = ["lernign_rate=1", "model=cnvnet", "batch_size=0", "num_epochs=two", "--json"]
    ended = called(train.main, *given, cwd=tmp_path)
    allowed = {
        load["option"]: load["allowed"] for load in json.loads(ended.output)["error"]["problems"]
    }
    assert "lr" in allowed["lernign_rate"]["enum"] and "convnet" in allowed["model"]["enum"]
    assert allowed["batch_size"] == {"type": "integer", "minimum": 1, "maximum": 10**12}
    assert allowed["num_epochs"]["anyOf"][0]["type"] == "integer"
    assert ended.code == 2 and list(tmp_path.iterdir()) == []
