import signal

signal.signal(signal.SIGINT, signal.SIG_DFL)
old = signal.signal(signal.SIGTERM, lambda *_: print("handler"))
print(old in (signal.SIG_DFL, signal.SIG_IGN))
signal.raise_signal(signal.SIGTERM)
