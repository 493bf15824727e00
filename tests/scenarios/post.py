"""Mail for stories: sent as the owner sends it, answers read from the outgoing Maildir."""

from __future__ import annotations

import email
import email.policy
import mailbox
import smtplib
from email.message import EmailMessage
from email.utils import make_msgid

from nightporter.testing import House, wait_until


def write(text: str, subject: str = "A question", **headers: str) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = "Ann <ann@example.org>"
    mail["To"] = "porter@localhost"
    mail["Subject"] = subject
    mail["Message-ID"] = make_msgid(domain="example.org")
    for name, value in headers.items():
        del mail[name.replace("_", "-")]
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail


def send(house: House, mail: EmailMessage | bytes, *, owner: bool = True, sender: str = "ann@example.org") -> None:
    """Hand a mail to the house, as its owner or as nobody. Raises smtplib's exceptions."""
    with smtplib.SMTP("127.0.0.1", house.smtp_port, timeout=20) as client:
        if owner:
            client.login("owner", house.token)
        data = mail if isinstance(mail, bytes) else mail.as_bytes(policy=email.policy.SMTP)
        client.sendmail(sender, ["porter@localhost"], data)


def replies_to(house: House, mail: EmailMessage) -> list[EmailMessage]:
    """What has been put into the outgoing Maildir in answer to ``mail``."""
    folder = house.home / "outgoing-mail"
    if not (folder / "cur").exists():  # made last
        return []
    found = []
    for _, raw in mailbox.Maildir(folder, create=False).items():
        parsed = email.message_from_bytes(raw.as_bytes(), policy=email.policy.default)
        if parsed["In-Reply-To"] == mail["Message-ID"]:
            found.append(parsed)
    return found  # type: ignore[return-value]


def reply_to(house: House, mail: EmailMessage) -> EmailMessage:
    """The one reply to ``mail``."""
    found: list[EmailMessage] = wait_until(lambda: replies_to(house, mail), f"a reply to {mail['Subject']}")
    assert len(found) == 1
    return found[0]


def text_of(mail: EmailMessage) -> str:
    part = mail.get_body(("plain",))
    assert part is not None
    return str(part.get_content())
