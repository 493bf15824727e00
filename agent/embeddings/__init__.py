"""Vectors of words, for search by meaning: a local model, or a provider's; without either, search goes by words."""
