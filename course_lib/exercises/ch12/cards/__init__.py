"""Chapter 12's cards: what a learner is asked, by topic."""
