X = "deep"
