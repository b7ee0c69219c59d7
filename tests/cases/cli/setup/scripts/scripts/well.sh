#!/usr/bin/env bash
set -eu
jq . | sort
