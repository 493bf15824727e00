"""``nightporter doctor``: checks of this machine and the settings, each with a remedy."""
