"""EvictionManager: has pods go before the node falls over."""
