"""The architectures, one file each, and the modules that several share."""
