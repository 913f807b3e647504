"""What is kept: quantities, results, run folders and their report."""
