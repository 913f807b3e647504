"""Declarations: what this plugin offers, without any of the code behind it."""
