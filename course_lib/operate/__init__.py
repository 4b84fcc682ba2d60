"""What comes after the plan: serving, faults, and the capstone's jobs."""
