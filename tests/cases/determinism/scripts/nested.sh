bash -c 'echo $RANDOM; python3 -c "
import subprocess, random
print(random.random(), flush=True)
subprocess.run([\"bash\", \"-c\", \"echo \$RANDOM; date +%s; mktemp\"])
"'; sh -c 'echo $$; mktemp'
