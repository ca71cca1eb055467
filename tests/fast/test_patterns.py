import threading
import time

import pytest

from andiron.plain import patterns


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*$", r"(.*a){20}$", r"((a*)*)*b"])
def test_an_expression_of_exponential_time_is_refused(pattern):
    started = time.process_time()
    with pytest.raises(ValueError, match="takes more than 1 second to match"):
        patterns.searched(pattern, ["a" * 60 + "!"])
    assert time.process_time() - started < 5


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 100_000])
def test_what_is_no_expression_is_refused(pattern):
    with pytest.raises(ValueError, match="is not a valid regex"):
        patterns.compiled(pattern)


def test_outside_the_main_thread_matching_has_no_timer():
    found = []
    thread = threading.Thread(target=lambda: found.append(patterns.searched("b", ["abc", "d"])))
    thread.start()
    thread.join()
    assert [*found[0]] == ["abc"]


def test_names_are_replaced_as_re_does():
    assert patterns.replaced("b(.)", r"\1", ["abc", "d"]) == [("ac", 1), ("d", 0)]
