// TODO later
x
y
