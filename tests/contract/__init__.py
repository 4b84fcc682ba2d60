"""What holds for every card, every audit, every drill and every widget of the course."""
