one
two TODO: mend
