pass​word = 1
