"""What each probe does; a file has the name of its probe."""
