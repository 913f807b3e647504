"""What several datasets are made with; tensors only."""
