"""What must last: database, journal, checkpoints, inbox, outbox, blobs, volumes."""
