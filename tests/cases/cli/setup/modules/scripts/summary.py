from lib.money import total

print(total([1, 2]))
