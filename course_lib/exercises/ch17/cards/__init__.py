"""Chapter 17's cards."""
