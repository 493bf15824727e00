"""For tests of agents: local servers that speak the platforms' protocols, and comparison with a corpus."""
