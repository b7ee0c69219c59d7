import os
if os.environ.get('FAST'):
    from middle import g
