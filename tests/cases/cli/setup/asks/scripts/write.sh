echo text > new.txt
