"""Chapter 04's cards."""
