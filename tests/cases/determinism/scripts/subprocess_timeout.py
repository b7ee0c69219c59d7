import subprocess, time
for command in [["sleep", "7200"], ["python3", "-c", "while True: pass"], ["bash", "-c", "read x < <(sleep 99)"]]:
    start = time.monotonic()
    try:
        subprocess.run(command, timeout=0.05)
    except subprocess.TimeoutExpired as late:
        print(late, time.monotonic() - start)
