"""What several of chapter 15's judges use."""

Seconds = dict[str, float]
