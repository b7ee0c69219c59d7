#!/bin/bash -e
echo
