"""What a job takes, by arithmetic alone: units and facts, memory, FLOPs, rooflines, scaling laws, and the planner. No torch."""
