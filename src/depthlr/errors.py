"""The one error depthlr raises on purpose: a sentence that says what was wrong and what to do."""


class DepthlrError(ValueError):
    """Bad input; the message is one sentence for the user, and nothing was changed."""
