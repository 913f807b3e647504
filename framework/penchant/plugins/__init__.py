"""Which plugins there are, what each offers, and what is said of it."""
