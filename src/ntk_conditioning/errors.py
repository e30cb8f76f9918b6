"""The base of every error that a user can mend: one line, shown without a traceback."""


class UserError(ValueError):
    """A mistake in what the user gave: the data, an entry, an option or a file's place.

    The message is one line that says what is wrong, where, and how to fix it. Programs print
    it and exit with code 2.
    """


def one_line(error: BaseException) -> str:
    """Return the message of a library's error without its line breaks.

    >>> one_line(ValueError("no such\\n  column"))
    'no such column'
    """
    return " ".join(str(error).split())
