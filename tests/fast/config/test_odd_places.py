"""A folder of any name can hold a project: its path is quoted for Hydra's grammar."""

import shlex

import pytest
from in_process import called

from andiron.shell.config import quoting
from andiron.shell.config.composition import composed
from andiron.shell.config.project import default_conf_dir
from andiron.wings.runs import check, new_project

NAMES = [
    "müller", "日本", "it's", 'say "x"', "a=b", "a(b)", "a[b]", "a{b}", "a#b", "a;b", "a!b", "~a",
    "a,b", "a b", "${x}", "$x", "a&b", "a*b", "a?b", "a|b", "a<b>", "a%20b", "a@b", "a:b", "-a",
    "back\\slash",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES[1::3])  # they are quoted as the option below is
def test_a_project_there_is_checked_and_its_mistakes_are_named(here, name):
    folder = here / name / "mine"
    assert called(new_project.main, folder, cwd=here).code == 0
    for place, where in ((folder, ()), (here, ("--config-dir", folder / "conf"))):
        ended = called(check.main, "--options", "width=8", *where, cwd=place)
        assert ended.code == 0, ended.errors
        ended = called(check.main, "--options", "widht=8", "bacth_size=1", *where, cwd=place)
        assert ended.code == 2 and "widht" in ended.errors and "bacth_size" in ended.errors


@pytest.mark.parametrize("name", NAMES)
def test_an_option_with_the_path_is_read_and_typed_as_it_stands(name):
    (argument,) = shlex.split(quoting.typed("start_from", f"/{name}/run"))
    assert composed(default_conf_dir(), [argument]).start_from == f"/{name}/run"
