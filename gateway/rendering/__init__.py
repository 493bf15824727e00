"""From the agent's markdown to what each channel shows: one tree, read here; each channel renders it."""
