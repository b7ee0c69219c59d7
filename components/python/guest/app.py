"""What componentize-py wraps: everything is made ready here, once, when the component is built; `Run.run` is called in each instance."""

from _skillhost import boot, main

boot.prepare()


class Run:
    def run(self):
        main.run()


main.PLAIN.add(Run)
boot.settle()
