import random
print(random.random(), random.randint(1, 10**9), random.gauss(0, 1), random.choices("abcdef", k=9), random.getrandbits(200))
deck = list(range(30))
random.shuffle(deck)
print(deck, random.sample(deck, 4), random.Random().random(), random.SystemRandom().random(), random.Random(5).random())
