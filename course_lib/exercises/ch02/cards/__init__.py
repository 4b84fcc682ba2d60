"""Chapter 02's cards: what a learner is asked, by topic."""
