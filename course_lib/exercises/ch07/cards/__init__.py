"""Chapter 07's cards: what a learner is asked, by topic."""
