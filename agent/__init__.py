"""What thinks and what it is given: engines, tools, context and its compression, memory."""
