"""The front of the house: settings, command line, supervisor and the public Python API."""

__version__ = "0.1.0"
