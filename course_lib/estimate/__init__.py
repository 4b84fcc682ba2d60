"""What a job takes, by arithmetic alone: units and facts, memory, FLOPs, rooflines and scaling laws. No torch."""
