"""Cards of chapter 14: what its exercises ask."""
