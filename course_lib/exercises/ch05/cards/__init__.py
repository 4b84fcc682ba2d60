"""Chapter 05's cards: what a learner is asked, by topic."""
