"""What comes after the plan: serving, faults, diagnosis, and the capstone's jobs. Processes and the machine that they
run on."""
