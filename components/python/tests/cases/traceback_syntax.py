# stderr: yes
# run: broken/syntax.py
