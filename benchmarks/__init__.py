"""What the sink costs, beside what others cost: `python -m benchmarks`. Figures, not tests."""
