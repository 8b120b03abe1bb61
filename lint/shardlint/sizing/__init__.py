"""What a layout costs: memory, from shapes alone. Pure functions of facts; no engine is named."""
