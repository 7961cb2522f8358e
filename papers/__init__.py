"""Five papers reproduced: their published tables beside ours. Run one by ``./dev papers NAME``."""
