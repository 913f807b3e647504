"""What each probe draws; a file has the name of its probe."""
