"""Mail fetched from a mailbox over IMAP, another way in beside SMTP. Imported only when ``email.imap_url`` is set."""
