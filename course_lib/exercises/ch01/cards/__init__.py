"""Chapter 01's cards: what a learner is asked, by topic."""
