"""Chapter 09's cards: what a learner is asked, by topic."""
