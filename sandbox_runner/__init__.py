"""The turn and the disposable sandbox it runs in."""
