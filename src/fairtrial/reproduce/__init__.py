"""One room for each paper: its published tables beside ours."""
