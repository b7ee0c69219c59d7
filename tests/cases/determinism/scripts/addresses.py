import gc, sys, weakref
class Thing: pass
things = [Thing() for _ in range(5)]
print(things, [id(t) for t in things], object(), lambda: 0, weakref.ref(things[0]))
print(gc.get_count(), gc.collect(), sys.getsizeof(things), sys.getrefcount(things))
