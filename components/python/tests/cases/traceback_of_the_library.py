# stderr: yes
# sandbox: the library lies elsewhere
import json

json.loads("{")
