"""Chapter 13's cards."""
