"""Every architecture as data, by what their networks are made of."""
