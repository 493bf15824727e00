"""Agents that teams write: the words they write them with, reading their file, and running their tools."""
