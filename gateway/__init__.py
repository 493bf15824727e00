"""In and out: one module or folder a channel, rendering, delivery. Never knows the runner."""
