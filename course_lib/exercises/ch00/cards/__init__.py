"""Chapter 00's cards: what a learner is asked, by topic."""
