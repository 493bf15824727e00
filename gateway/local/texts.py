"""What a caller of the HTTP interface reads when something is wrong: what, and what to do."""

from __future__ import annotations

NO_TOKEN = "send `Authorization: Bearer <token>`; the token is in the file `token` of the home directory"
NOT_JSON = 'the body is not JSON; send an object such as {"text": "hello"}'
NOT_AN_OBJECT = 'the body must be a JSON object such as {"text": "hello"}'
NO_TEXT = "`text` must be a string with something in it"
BAD_ID = "`message_id` must be a string of 1 to 200 printable characters without '/'"
BAD_USER = "`user` must be a name of 1 to 64 letters, digits, '.', '_' or '-'"
BAD_MORE = "`more` is true or false"
BAD_THREAD = "`thread` must be a string of at most 200 characters"
NO_MESSAGE = "no message of that id; it was never accepted, or belongs to another user"
NO_USER = "nobody of that name has written yet"
TRY_AGAIN = "the database is not reachable now; nothing was accepted, send it again"
DISK_FULL = "the disk is full; nothing was accepted, send it again when there is room"
BAD_EVENT_ID = "`Last-Event-ID` must be an id this stream has sent, `principal:seq`"
NOT_ADMITTED = "this user is blocked"


NO_FILE = "no such file among the replies to that message"
NOT_KEPT = "the files could not be kept (is the disk full?); send it again with the same message_id"


def not_a_form(reason: str) -> str:
    return f"the form cannot be read: {reason}"


def file_too_large(most: int) -> str:
    return f"a file has more than {most:,} bytes (`files.max_bytes`)"


def too_long(most: int) -> str:
    return f"the body is too long; at most {most:,} bytes"


def unknown_fields(names: list[str]) -> str:
    known = "text, message_id, user, thread and more, and `file` in a form"
    return f"unknown fields: {', '.join(sorted(names)[:10])}; known are {known}"
