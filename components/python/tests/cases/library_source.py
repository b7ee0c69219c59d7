import inspect
import textwrap

print(inspect.getsource(textwrap.dedent).splitlines()[0])
