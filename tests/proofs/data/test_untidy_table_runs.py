"""The command of docs/data.md on a table with gaps and text; it resumes to the same bits."""

import csv
import io
import json
import math
import random
import re
import shlex
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch
from in_process import called
from strangers_tables import AMERICAN, AMERICAN_OPTIONS, GERMAN, GERMAN_OPTIONS

import andiron
from andiron import errors
from andiron.shell.training import train
from andiron.wings.runs import accept_changes
from andiron.wings.trained import evaluate, predict

PAGE = Path(__file__).resolve().parents[3] / "docs" / "data.md"
(COMMAND,) = re.findall(r"^python train.py (data=csv_.*)$", PAGE.read_text(), flags=re.MULTILINE)


def write_houses(path):
    draws, lines = random.Random(0), ["id;area;town;sold;price"]
    for row in range(120):
        town = draws.choice(["Bonn", "Rome", "Oslo", ""])
        area = draws.uniform(30, 150)
        shown = "" if row % 11 == 5 else f"{area:.1f}"
        lines.append(f"{row};{shown};{town};2024-0{1 + row % 9}-07;{area * 4 + len(town):.1f}")
    lines.insert(40, "a line that is no row")
    path.write_text("\n".join(lines) + "\n")


def weights(here, name, *arguments):
    ended = called(train.main, "render=plain", *arguments, cwd=here)
    assert ended.code == 0, ended.errors
    return safetensors.torch.load_file(here / name / "model.safetensors")


def test_the_command_of_the_page_trains_and_resumes_to_the_same_bits(here):
    write_houses(here / "houses.csv")
    arguments = [*shlex.split(COMMAND), "model.hidden=[8]", "data.categories=codes"]

    refused = called(train.main, *arguments, "hydra.run.dir=refused", cwd=here)
    assert (refused.code, "line 41: has 1 values where the header has 5" in refused.errors) == (
        1, True
    )  # fmt: skip
    arguments.append("data.max_bad_lines=1")
    whole = weights(here, "whole", *arguments, "hydra.run.dir=whole", "num_epochs=3")
    weights(here, "part", *arguments, "hydra.run.dir=part", "num_epochs=2")
    resumed = weights(here, "part", "resume=part", "num_epochs=3")

    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    facts = json.loads((here / "part" / "data.json").read_text())
    assert facts["columns"] == ["area", "town", "sold"] and facts["skipped_lines"] == [41]
    assert facts["category_counts"] == [0, 4, 0]
    (here / "new.csv").write_text("sold;area;town\n2024-05-07;;Oslo\n2024-05-07;80;Atlantis\n")
    predicted = andiron.load(here / "part").predict(here / "new.csv")
    fill = facts["encoding"]["columns"][0]["fill"]
    rows = [{"area": fill, "town": "Oslo", "sold": "2024-05-07"},
            {"area": 80, "town": "", "sold": "2024-05-07"}]  # fmt: skip
    same = andiron.load(here / "part").predict(rows)
    assert [value.values for value in predicted] == [value.values for value in same]


def test_stdin_has_the_delimiter_and_the_decimal_comma_of_a_file(here, monkeypatch):
    rows = [f"{row};{row % 7},5;{('Bonn', 'Rome')[row % 2]};{row % 5},25" for row in range(40)]
    (here / "houses.csv").write_text("\n".join(["id;area;town;price", *rows]) + "\n")
    options = ["data.target=price", "data.exclude=[id]", "data.decimal=','", "model.hidden=[4]"]
    weights(here, "run", "data=csv_regression", "data.path=houses.csv", "hydra.run.dir=run",
            "num_epochs=1", *options)  # fmt: skip
    by_name = called(predict.main, here / "run", here / "houses.csv")
    content = io.BytesIO((here / "houses.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    from_stdin = called(predict.main, here / "run", "-")
    assert (from_stdin.code, from_stdin.errors) == (0, "")
    assert from_stdin.output == by_name.output.replace(str(here / "houses.csv"), "stdin")


def test_predictions_keep_columns_and_name_unknown_categories(here, caplog):
    rows = [f"h{row},{row % 7},{('Bonn', 'Rome')[row % 2]},{row % 5}" for row in range(40)]
    (here / "houses.csv").write_text("\n".join(["id,area,town,price", *rows]) + "\n")
    weights(here, "run", "data=csv_regression", "data.path=houses.csv", "hydra.run.dir=run",
            "num_epochs=1", "data.target=price", "data.exclude=[id]")  # fmt: skip
    new = "area,town,id,price\n1,Paris,a,2\n2,Rome,,3\n3,Lima,c,\n4,Paris,d,NA\n"
    (here / "new.csv").write_text(new)
    given = here / "run", "new.csv", "--keep", "id", "--keep", "price"
    ended = called(predict.main, *given, cwd=here)
    table = [*csv.DictReader(io.StringIO(ended.output))]
    assert [*table[0]] == ["input", "id", "input.price", "price"], ended.errors
    assert [row["id"] for row in table] == ["a", "", "c", "d"]
    assert [row["input.price"] for row in table] == ["2", "3", "", "NA"]
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.getMessage() for record in warnings] == [
        "new.csv: column 'town' has unknown categories in 3 of 4 rows: 'Lima', 'Paris'; "
        "the training rows lacked them, and the network gets no category"
    ]
    lines = called(predict.main, *given, "--json", cwd=here).output.splitlines()
    assert json.loads(lines[0])["kept"] == {"id": "a", "price": "2"}
    run = andiron.load(here / "run")
    row = {"area": 1, "town": "Rome", "id": 7}
    assert [value.kept for value in run.predict([row], keep=["id"])] == [{"id": "7"}]
    refused = called(predict.main, here / "run", "new.csv", "--keep", "ids", cwd=here)
    assert "error: new.csv: has no column 'ids'; did you mean 'id'?" in refused.errors
    with pytest.raises(errors.DataError, match="keep=id: these inputs are not rows of a table"):
        run.predict(torch.zeros(2, 3), keep=["id"])


def test_a_run_is_measured_on_few_rows_and_predicts_the_valid_ones(here, monkeypatch):
    rows = [f"{row},{row % 7},{('a', 'b')[row % 2]}" for row in range(40)]
    (here / "t.csv").write_text("\n".join(["x,z,y", *rows]) + "\n")
    weights(here, "run", "data=csv", "data.path=t.csv", "data.target=y", "hydra.run.dir=run",
            "num_epochs=1", "model.hidden=[4]")  # fmt: skip
    (here / "one.csv").write_text("x,z,y\n1,2,b\n3,4,b\n")
    ended = called(evaluate.main, "run", "split=all", "data.path=one.csv", "--json", cwd=here)
    assert (ended.code, json.loads(ended.output)["samples"]) == (0, 2), ended.errors
    refused = called(evaluate.main, "run", "data.path=one.csv", cwd=here)
    assert "split=all measures all rows" in refused.errors

    table = b"x,z\n1,2\n,3\n4,1e39\n5,many\n6,7\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table)))
    ended = called(predict.main, "run", "-", "--json", cwd=here)
    *rows, last = map(json.loads, ended.output.splitlines())
    names = [row["input"] for row in rows]
    assert last["error"]["exit_code"] == 1
    assert (ended.code, names) == (1, ["stdin, line 2", "stdin, line 6"])
    assert all(f"line {line}" in ended.errors for line in (3, 4, 5))

    run = andiron.load(here / "run")
    with torch.no_grad():
        next(run.model.parameters()).fill_(math.nan)
    with pytest.raises(errors.DataError, match="row 0: the network's output is NaN or infinite"):
        run.predict([{"x": 1, "z": 2}])


@pytest.mark.parametrize(
    "content, encoding, target, options",
    [(GERMAN, "cp1252", "Klasse", GERMAN_OPTIONS), (AMERICAN, "utf-8", "kind", AMERICAN_OPTIONS)],
    ids=["German", "American"],
)
def test_a_strangers_table_trains_by_its_options(here, content, encoding, target, options):
    (here / "table.csv").write_bytes(content.encode(encoding))
    command = ["render=plain", "data=csv", "data.path=table.csv", f"data.target={target}",
               "num_epochs=1", "model.hidden=[4]", "hydra.run.dir=run"]  # fmt: skip
    refused = called(train.main, *command, cwd=here)
    assert refused.code == 1 and not (here / "run" / "model.safetensors").exists()
    given = [f"data.{name}={json.dumps(value)}" for name, value in options.items()]
    weights(here, "run", *command, *given)
    recorded = json.loads((here / "run" / "config.json").read_text())["data"]
    assert {name: recorded[name] for name in options} == options


def test_a_run_with_an_option_of_an_earlier_version_resumes(here):
    rows = [f"{row},{row % 7},{('a', 'b')[row % 2]}" for row in range(40)]
    (here / "t.csv").write_text("\n".join(["x,z,y", *rows]) + "\n")
    weights(here, "run", "data=csv", "data.path=t.csv", "data.target=y", "hydra.run.dir=run",
            "num_epochs=1", "model.hidden=[4]")  # fmt: skip
    config = json.loads((here / "run" / "config.json").read_text())
    config["data"] |= {"units": None, "delimiter": ",", "standardise": True, "text": "one_hot"}
    (here / "run" / "config.json").write_text(json.dumps(config))
    assert called(accept_changes.main, "run", cwd=here).code == 0
    weights(here, "run", "resume=run", "num_epochs=2")
    assert len(andiron.load(here / "run").predict(here / "t.csv")) == 40
    ended = called(evaluate.main, "run", cwd=here)
    assert ended.code == 0, ended.errors
    refused = called(train.main, "data=csv", "data.path=t.csv", "data.target=y",
                     "data.delimiter=tab", cwd=here)  # fmt: skip
    assert "data.delimiter: no such option; " in refused.errors


def test_large_targets_are_predicted_and_measured_in_their_unit(here):
    seconds = [1_700_000_000 + 25_000 * (row % 13) for row in range(60)]
    rows = [f"{row % 13},{second}" for row, second in enumerate(seconds)]
    (here / "t.csv").write_text("\n".join(["x,t", *rows]) + "\n")
    (here / "other.csv").write_text("\n".join(["x,t", *rows[:30]]) + "\n")
    weights(here, "run", "data=csv_regression", "data.path=t.csv", "data.target=t",
            "hydra.run.dir=run", "model.hidden=[]", "num_epochs=200", "lr=0.1", "batch_size=64",
            "data.valid_sets={other: other.csv}")  # fmt: skip
    facts = json.loads((here / "run" / "data.json").read_text())
    assert math.isclose(facts["target_offset"][0], facts["target_mean"][0])
    run = andiron.load(here / "run")
    predicted = [value.values["t"] for value in run.predict([{"x": row} for row in range(13)])]
    exact = [1_700_000_000 + 25_000 * row for row in range(13)]
    assert max(abs(a - b) for a, b in zip(predicted, exact)) < 30
    assert len({*predicted}) == 13 and any(value % 128 for value in predicted)
    ended = called(predict.main, "run", "other.csv", "--json", cwd=here)
    lines = [json.loads(line) for line in ended.output.splitlines()]
    assert abs(lines[0]["values"]["t"] - predicted[0]) < 1e-3, lines[0]
    for options in ([], ["split=other"], ["split=all", "data.path=other.csv"],
                    ["data.path=other.csv"]):  # fmt: skip
        ended = called(evaluate.main, "run", *options, "--json", cwd=here)
        metrics = json.loads(ended.output)["metrics"]
        assert (ended.code, metrics["mae"] < 30) == (0, True), ended.errors
