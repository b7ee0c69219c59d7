OURS = True
