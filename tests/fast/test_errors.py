"""Text of strangers in errors and tables."""

import sys
import unicodedata

import pytest
import torch

from andiron import errors
from andiron.plain import readable

# signs that are drawn, in Arabic, Syriac, Kaithi and Egyptian, though they are format characters
VISIBLE = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD,
           *range(0x13430, 0x13440)}  # fmt: skip
JOINERS = {0x200C, 0x200D}


def test_no_invisible_character_is_printed():
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    printed = {
        code
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in hidden and readable.printable(chr(code)) == chr(code)
    }
    assert printed <= {ord("\t"), ord("\n")} | JOINERS | VISIBLE


def test_text_that_reverses_or_breaks_a_line_is_escaped():
    hostile = "invoice\u202egnp.exe\u2028error: done\u2066x\u2069\x85\U000e0041"
    shown = r"invoice\u202egnp.exe\u2028error: done\u2066x\u2069\x85\U000e0041"
    assert readable.printable(hostile) == shown
    assert str(errors.DataError(hostile)) == shown


def test_readable_text_stays_as_it_is():
    text = "naïve 漢字 עברית العربية می\u200cخواهم 👩\u200d🔬 ❤\ufe0f\t1\u00a0000\u202f€\n"
    assert readable.printable(text) == text


def test_an_error_of_the_users_own_code_is_kept_and_says_what_did_not_fit():
    with pytest.raises(RuntimeError) as raised:
        torch.ones(2) + torch.ones(3)

    assert errors.explain(raised.value, "task Own with inputs [2]", "choose others") is None
    assert raised.value.__notes__ == ["task Own with inputs [2]; choose others"]
