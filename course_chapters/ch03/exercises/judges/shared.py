"""What several of chapter 03's judges use."""

PEAKS = (125e12, 312e12, 459e12, 989e12, 1307e12, 2250e12)
MEMORIES = (0.9e12, 1.2e12, 2.039e12, 3.35e12, 4.8e12, 8e12)
