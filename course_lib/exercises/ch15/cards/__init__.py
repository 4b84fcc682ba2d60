"""Chapter 15's cards: what a learner is asked, by topic."""
