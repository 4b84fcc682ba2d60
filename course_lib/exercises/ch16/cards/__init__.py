"""Cards of chapter 16: what its exercises ask."""
