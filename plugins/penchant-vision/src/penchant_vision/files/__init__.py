"""Files of images: where they are, how they are fetched, how each format is read."""
