import threading, time, random
said = []
def work(name):
    for turn in range(4):
        time.sleep(random.random() / 50)
        said.append((name, turn, round(time.monotonic(), 6)))
workers = [threading.Thread(target=work, args=(n,)) for n in "abcd"]
[w.start() for w in workers]; [w.join() for w in workers]
print(said, threading.get_ident(), [w.ident for w in workers])
