"""What people and monitoring see: pure functions of what the actors last committed."""
