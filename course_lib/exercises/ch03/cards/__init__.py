"""Chapter 03's cards: what a learner is asked, by topic."""
