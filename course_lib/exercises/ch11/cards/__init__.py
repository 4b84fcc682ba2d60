"""Chapter 11's cards."""
