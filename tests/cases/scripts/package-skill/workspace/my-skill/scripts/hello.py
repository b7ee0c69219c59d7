print("héllo")
