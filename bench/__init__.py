"""Budgets: one file each, printed as a table beside what was measured; never asserted in a test."""
