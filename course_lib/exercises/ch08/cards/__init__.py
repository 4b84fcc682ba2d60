"""Chapter 08's cards: what a learner is asked, by topic."""
