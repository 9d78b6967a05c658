"""The message of an error is one line that a terminal can show."""

import pickle

from depthlr.errors import DepthlrError


def test_what_would_control_a_terminal_is_escaped_and_other_text_is_not() -> None:
    assert str(DepthlrError("a\x1b[31m\nb\udcff\u202e")) == r"a\x1b[31m\nb\udcff\u202e"
    assert str(DepthlrError("größer als 'é' − 1")) == "größer als 'é' − 1"


def test_an_error_crosses_to_another_process_unchanged() -> None:
    error = DepthlrError("a\nb")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
