"""Who wrote a mail, proven by DNS (SPF, DKIM and DMARC alignment) or by one's own mail server; never guessed.

Runs in threads of its own, since the libraries for SPF and DKIM wait for their answers. Imported when first needed.
"""
