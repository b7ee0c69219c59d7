# sandbox: a native python3 kills itself by the signal, so that its parent sees -2
raise KeyboardInterrupt
