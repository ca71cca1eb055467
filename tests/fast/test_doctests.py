"""The examples in docstrings are true."""

import doctest
import importlib
import pkgutil

import andiron


def modules():
    for package in pkgutil.walk_packages(andiron.__path__, "andiron."):
        yield importlib.import_module(package.name)


def test_every_example_in_a_docstring_gives_what_it_says(here, request):
    examples = {"getfixture": request.getfixturevalue}  # as pytest offers to doctests
    failed, tried = {}, 0
    for module in modules():
        result = doctest.testmod(module, extraglobs=examples, optionflags=doctest.ELLIPSIS)
        tried += result.attempted
        if result.failed:
            failed[module.__name__] = result.failed

    assert failed == {}
    assert tried > 20
