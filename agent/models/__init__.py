"""Engines that ask a model. Imported only where one is configured: the libraries take seconds and tens of megabytes."""
