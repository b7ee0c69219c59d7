#!/bin/sh
echo "$1" | tr a b | awk "{print}" | sort | uniq -c
