from heavy import f as g
