echo $RANDOM $RANDOM $RANDOM ${SRANDOM:-none}; (echo $RANDOM); (echo $RANDOM) | cat
RANDOM=5; echo $RANDOM $RANDOM
shuf -i 1-100 -n 10; seq 20 | sort -R | head -5; shuf -e a b c d e
