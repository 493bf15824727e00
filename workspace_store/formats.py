"""The form in which this release writes what it keeps of a principal, so that two releases may run beside each other.

One number for all of it: journal, checkpoints, inbox, process state, volumes. Whoever takes a principal's lease raises
its row to the number; a release that knows only lower ones leaves the row, and its messages, to a newer host.
What is added so that an older release reads past it needs no new number (CONTRIBUTING.md has the rule).
"""

FORMAT = 1
