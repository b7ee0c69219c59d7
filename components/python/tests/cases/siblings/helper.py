VALUE = "a sibling"
