"""The configuration of the agent: its fields, their limits, and the settings that they come to."""
