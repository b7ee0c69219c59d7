"""The application that componentize-py wraps. Everything is prepared here, once, when the component is built; each instance calls
`Run.run`.
"""

from _skillhost import boot, main

boot.prepare()


class Run:
    def run(self):
        main.run()


main.PLAIN.add(Run)
boot.settle()
