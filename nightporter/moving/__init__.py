"""An agent moves to another installation: it leaves here as a signed bundle, and arrives there by a one-time grant."""
