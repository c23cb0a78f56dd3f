"""A pod's volumes: what they need, which parts containers mount, when they are made and removed."""
