"""Chapter 06's cards: what a learner is asked, by topic."""
