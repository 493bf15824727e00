"""Users, their proven identities, and who may speak to the agent."""
