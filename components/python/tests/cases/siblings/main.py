import os
import helper
import calendar

print(helper.VALUE, calendar.of_the_script(), __file__, os.path.dirname(os.path.abspath(__file__)) == os.path.dirname(os.path.abspath(helper.__file__)))
