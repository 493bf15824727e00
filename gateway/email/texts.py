"""What a person reads of the email channel: SMTP answers, reasons in `status`, words in a mail's header."""

from __future__ import annotations

NO_SUBJECT = "(no subject)"
NEW_THREAD = "Nightporter"

GREETING = "Nightporter"
ACCEPTED = "250 2.0.0 Kept; it will be answered"
TOO_LARGE = "552 5.3.4 Message too big for this system"
NO_ROOM = "452 4.3.1 Too much mail at once; try again in a minute"
DISK_FULL_CODE = "452 4.3.1"
DISK_FULL = "The disk is full; try again later"
TRY_LATER = "451 4.3.0 Cannot keep the message now; try again later"
REFUSED = "550 5.7.1 Message refused"
UNKNOWN_RECIPIENT = "550 5.1.1 No such mailbox here"
TOO_MANY_RECIPIENTS = "452 4.5.3 Too many recipients"
TOO_MANY_HOPS = "554 5.4.6 Too many Received fields: a mail loop"
TOO_MANY_CONNECTIONS = "421 4.3.2 Too many connections; try again later"
TOO_MANY_LOGINS = "421 4.7.0 Too many failed logins; try again later"
SHUTTING_DOWN = "421 4.3.2 Shutting down; try again later"
BAD_LOGIN = "535 5.7.8 Authentication credentials invalid"
NOTHING_TO_KEEP = "550 5.6.0 The message is empty"

NOT_PROVEN = "550 5.7.26"
NOT_PROVEN_YET = "451 4.4.3"
"""Codes before the words of ``UNPROVEN_…`` (RFC 7372, 3463)."""

UNPROVEN_HEADER = "The header of the message is malformed, so its author is not certain"
UNPROVEN_TWICE = "The header of the message holds {field} twice, so its author is not certain"
UNPROVEN_NO_AUTHOR = "The message names no author in its From"
UNPROVEN_SEVERAL = "The From or Sender of the message does not hold one plain address"
UNPROVEN_ADDRESS = "The address of the author cannot be used"
UNPROVEN_DISPLAY = "The name of the author is another mail address"
UNPROVEN_SENDER = "The message was sent by someone else (Sender) than its author (From)"
UNPROVEN_NO_DATE = "The message has no Date that can be read"
UNPROVEN_STALE = "The message is too old to be taken: it may have been sent before"
UNPROVEN_FUTURE = "The Date of the message lies ahead"
UNPROVEN_RESULTS = "DMARC did not pass at the receiving server"
UNPROVEN_ALIGNMENT = "Neither SPF nor DKIM passes and aligns with {domain} (RFC 7489)"
UNPROVEN_NOT_FOR_US = "The message is signed, but it names another recipient; it was sent on by someone"
UNPROVEN_LOOKUPS = "Checking the sender takes too many DNS look-ups"
PROOF_LATER = "The sender cannot be checked now ({reason}); try again later"

INVITATION = {
    "REQUEST": "An invitation",
    "CANCEL": "An invitation that was withdrawn",
    "REPLY": "An answer to an invitation",
    "COUNTER": "Another time for an invitation",
}
EVENT = "A calendar entry"
EVENT_FIELDS = (("starts", "begins"), ("ends", "ends"), ("location", "where"), ("organizer", "organised by"))

NOT_AUTOMATIC = "it is an automatic mail ({detail})"
NOT_BOUNCE = "it is a bounce ({detail})"
NOT_LIST = "it comes from a mailing list or a notifier ({detail})"
NOT_NULL_SENDER = "it has a null sender"
NOT_SELF = "it comes from our own address"
NOT_NOREPLY = "its sender says that nobody reads answers ({address})"
NOT_ADDRESSED = "it names no sender"

BAD_DKIM_KEY = "email.dkim_key is no private key that can sign; make one with: openssl genrsa -out dkim.pem 2048"
HALF_DKIM = "email.dkim_key and email.dkim_selector are needed both, or neither"
CAME_BACK = "it came back from {to}: {reason}"
NO_REASON = "no reason was given"

NO_MAILBOX = "mail cannot be fetched from {mailbox}: {reason}; check email.imap_url"
NO_FOLDER = "mail cannot be fetched: {mailbox} cannot be opened ({reason}); check the folder in email.imap_url"
BAD_IMAP_URL = "email.imap_url must look like imaps://user:password@host/folder"

RELAY_UNREACHABLE = "cannot reach the mail relay {relay}: {reason}"
RELAY_REFUSED_LOGIN = "the mail relay {relay} refused user and password: {reason}; check email.relay"
RELAY_NEEDS_TLS = (
    "the mail relay {relay} offers no TLS, and a password is not sent in the clear: "
    "use smtps:// or a relay on this machine"
)
RELAY_SAID = "the mail relay said: {code} {message}"
RESPONSE_LOST = "the connection to the mail relay was lost after the message was sent; it may have been delivered"
BAD_RELAY = "email.relay must look like smtp://host:port or smtps://user:password@host, not {url!r}"
BAD_LISTEN = "email.listen must look like 127.0.0.1:8025, not {value!r}"
BAD_ADDRESS = "{address!r} is no mail address"
BAD_PROTOCOL = "email.protocol must be smtp or lmtp, not {value!r}"
HALF_TLS = "email.tls_certificate and email.tls_key are needed both, or neither"
