"""A pod's life as a whole: its stages, what their outcomes mean, deadlines, refusal, events."""
