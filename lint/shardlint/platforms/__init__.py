"""What operators and charts make of an object: a module for each, with formulas and words."""
