"""Chapter 10's cards: what a learner is asked, by topic."""
