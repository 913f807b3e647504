"""Plugins: discovery, what each provides, and how it is listed."""
