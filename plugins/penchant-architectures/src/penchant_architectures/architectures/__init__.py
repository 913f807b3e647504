"""The architectures, one file each, and the parts that several are built from."""
